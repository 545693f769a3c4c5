"""Local windows in some or all heads: sliding-window attention and Hard-ALiBi."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jrope import arguments, checks, exact
from jrope.encoding import Encoding

__all__ = ["HardAlibi", "Window", "windowed"]


@arguments.checked(q_positions="ids [..., T]", k_positions="ids [..., S]")
def windowed(
    q_positions: ArrayLike, k_positions: ArrayLike, *, windows: Sequence[int | None]
) -> jax.Array:
    """Local windows: 0 where `|q_position - k_position| < windows[h]`, -1e30 elsewhere.

    Float32 [..., N, T, S]. The softmax weight of a key outside the window is exactly 0, and so is
    its gradient. A row without a key in the window (decoding without the window's keys) becomes
    uniform, not NaN.

    Args:
      q_positions: [..., T] and k_positions: [..., S], position ids.
      windows: for each head, how many positions a query sees on each side, including its own; None
        for all of them.

    Raises:
      ValueError: if there are no heads or a window is below 1.
    """
    if not windows or any(window is not None and window < 1 for window in windows):
        wanted = "a window of at least 1, or None, for each head"
        raise ValueError(f"windowed: windows must be {wanted}, got {windows}")
    distances, _ = exact.distance(q_positions, k_positions)
    distances, sizes = exact.align_heads(distances, [w or np.inf for w in windows])
    return jnp.where(distances < sizes, 0.0, checks.MASK_VALUE).astype(jnp.float32)


@dataclass(frozen=True)
class Window(Encoding):
    """Sliding-window attention: in every head a token sees the last `size` positions.

    They include its own (`jrope.windowed`). A window has no order inside it: chain it with an
    encoding that does. Beltagy et al. 2020, "Longformer", arXiv:2004.05150.

    Attributes:
      size: positions that a token sees, including its own.
    """

    name: ClassVar[str] = "window"

    size: int

    def __post_init__(self):
        arguments.check_fields(self)
        checks.at_least("Window", "size", self.size, 1)

    def bias(self, params, q_positions, k_positions, *, num_heads):
        windows = [self.size] * checks.number(num_heads)
        return windowed(q_positions, k_positions, windows=windows)


@dataclass(frozen=True)
class HardAlibi(Encoding):
    """Hard-ALiBi: some heads see a local window, the others have no position (`jrope.windowed`).

    Head h, from 0, sees the last `window * (h + 1)` positions, including its own. A window of 1
    gives the 1, 2, 3, ... of Jelassi et al. 2024, "Repeat After Me", arXiv:2402.01032, and of their
    code.

    Attributes:
      window: of the first head; each further head sees as many more.
      windowed_heads: how many heads have a window; None for half of them, rounded up.
    """

    name: ClassVar[str] = "hard_alibi"

    window: int = 1
    windowed_heads: int | None = None

    def __post_init__(self):
        arguments.check_fields(self)
        checks.at_least("HardAlibi", "window", self.window, 1)
        if self.windowed_heads is not None:
            checks.at_least("HardAlibi", "windowed_heads", self.windowed_heads, 0)

    def bias(self, params, q_positions, k_positions, *, num_heads):
        num_heads = checks.number(num_heads)
        count = (num_heads + 1) // 2 if self.windowed_heads is None else self.windowed_heads
        if count > num_heads:
            most = f"at most the number of heads, {num_heads}, got {count}"
            raise ValueError(f"HardAlibi: windowed_heads must be {most}")
        windows = [self.window * (h + 1) if h < count else None for h in range(num_heads)]
        return windowed(q_positions, k_positions, windows=windows)
