"""Encodings that bias the scores."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from jrope.bias import alibi, check_sandwich, sandwich, windowed
from jrope.bias_learned import check_t5, fire, kerple_log, kerple_power, t5
from jrope.cope import cope
from jrope.encoding import Encoding


@dataclass(frozen=True)
class Alibi(Encoding):
    """Attention with linear biases (`jrope.alibi`)."""

    def bias(self, params, q_positions, k_positions, *, num_heads):
        return alibi(q_positions, k_positions, num_heads=num_heads)


@dataclass(frozen=True)
class HardAlibi(Encoding):
    """Hard-ALiBi: some heads see a local window, the others have no position (`jrope.windowed`).

    Head h, from 0, sees the last `window * (h + 1)` positions, its own included; with a window of 1 these are the 1, 2, 3, ...
    of Jelassi et al. 2024, arXiv:2402.01032, and of their code.

    Attributes:
      window: of the first head; each further head sees as many more.
      windowed_heads: how many heads have a window; None for half of them, rounded up.
    """

    window: int = 1
    windowed_heads: int | None = None

    def __post_init__(self):
        if self.window < 1:
            raise ValueError(f"HardAlibi: window must be at least 1, got {self.window}")
        if self.windowed_heads is not None and self.windowed_heads < 0:
            raise ValueError(f"HardAlibi: windowed_heads must be at least 0, got {self.windowed_heads}")

    def bias(self, params, q_positions, k_positions, *, num_heads):
        count = (num_heads + 1) // 2 if self.windowed_heads is None else self.windowed_heads
        if count > num_heads:
            raise ValueError(f"HardAlibi: windowed_heads must be at most the number of heads, {num_heads}, got {count}")
        windows = [self.window * (h + 1) if h < count else None for h in range(num_heads)]
        return windowed(q_positions, k_positions, windows=windows)


@dataclass(frozen=True)
class Window(Encoding):
    """Sliding-window attention: in every head a token sees the last `size` positions, its own included (`jrope.windowed`).

    It says nothing about order within the window: chain it with an encoding that does.
    """

    size: int

    def __post_init__(self):
        if self.size < 1:
            raise ValueError(f"Window: size must be at least 1, got {self.size}")

    def bias(self, params, q_positions, k_positions, *, num_heads):
        return windowed(q_positions, k_positions, windows=[self.size] * num_heads)


@dataclass(frozen=True)
class Sandwich(Encoding):
    """The inner product of sinusoids as a bias (`jrope.sandwich`).

    Attributes:
      dim: of the sinusoids, even; not the model's width.
      base: of their frequencies.
    """

    dim: int = 128
    base: float = 10_000.0

    def __post_init__(self):
        check_sandwich("Sandwich", self.dim, self.base)

    def bias(self, params, q_positions, k_positions, *, num_heads):
        return sandwich(q_positions, k_positions, num_heads=num_heads, dim=self.dim, base=self.base)


@dataclass(frozen=True)
class T5(Encoding):
    """A learned number for each head and bucket of distances (`jrope.t5`).

    The table starts normal with variance 1 / features, as in transformers.

    Attributes:
      buckets: rows of the table; if bidirectional, half of them for each direction.
      max_distance: from which on all distances share a bucket.
      bidirectional: whether keys after the query have buckets of their own.
    """

    buckets: int = 32
    max_distance: int = 128
    bidirectional: bool = False

    def __post_init__(self):
        check_t5("T5", self.buckets, self.max_distance, self.bidirectional)

    def init(self, key, *, features, num_heads, head_dim):
        return {"table": features**-0.5 * jax.random.normal(key, (self.buckets, num_heads))}

    def bias(self, params, q_positions, k_positions, *, num_heads):
        options = {"max_distance": self.max_distance, "bidirectional": self.bidirectional}
        return t5(params["table"], q_positions, k_positions, **options)


@dataclass(frozen=True)
class KerpleLog(Encoding):
    """KERPLE with the logarithmic kernel (`jrope.kerple_log`).

    As in the official code r1 starts uniform up to 2 and r2 up to 1. That code keeps them positive by setting them to 0.01
    whenever a step took them below; here the trained numbers are their inverse softplus, positive by construction.
    """

    def init(self, key, *, features, num_heads, head_dim):
        r1, r2 = (_uniform(k, num_heads, highest) for k, highest in zip(jax.random.split(key), (2.0, 1.0), strict=True))
        return {"r1": _inverse_softplus(r1), "r2": _inverse_softplus(r2)}

    def bias(self, params, q_positions, k_positions, *, num_heads):
        return kerple_log(jax.nn.softplus(params["r1"]), jax.nn.softplus(params["r2"]), q_positions, k_positions)


@dataclass(frozen=True)
class KerplePower(Encoding):
    """KERPLE with the power kernel (`jrope.kerple_power`).

    As in the official code r1 starts uniform up to 1 and r2 up to 2. Where that code clips them to at least 0.01, and r2 to at
    most 2, here the trained numbers are the inverse softplus of r1 and the logit of r2 / 2.
    """

    def init(self, key, *, features, num_heads, head_dim):
        r1, r2 = (_uniform(k, num_heads, highest) for k, highest in zip(jax.random.split(key), (1.0, 2.0), strict=True))
        return {"r1": _inverse_softplus(r1), "r2": jax.scipy.special.logit(r2 / 2)}

    def bias(self, params, q_positions, k_positions, *, num_heads):
        r1, r2 = jax.nn.softplus(params["r1"]), 2 * jax.nn.sigmoid(params["r2"])
        return kerple_power(r1, r2, q_positions, k_positions)


def _uniform(key, num_heads, highest):
    return jax.random.uniform(key, (num_heads,), minval=0.01, maxval=highest)  # the official floor


def _inverse_softplus(x):
    return jnp.log(jnp.expm1(x))


@dataclass(frozen=True)
class Fire(Encoding):
    """A network of the distance relative to the query's position (`jrope.fire`), in the default initialisation of PyTorch.

    Attributes:
      hidden: width of the network.
      c: initial slope within the logarithm.
      threshold: initial L, the position up to which distances are relative to L and not to the query's position.
    """

    hidden: int = 32
    c: float = 0.1
    threshold: float = 512.0

    def __post_init__(self):
        if self.hidden < 1:
            raise ValueError(f"Fire: hidden must be at least 1, got {self.hidden}")
        for name in ("c", "threshold"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise ValueError(f"Fire: {name} must be positive and finite, got {getattr(self, name)}")

    def init(self, key, *, features, num_heads, head_dim):
        def uniform(key, fan_in, *shape):
            return jax.random.uniform(key, shape, minval=-(fan_in**-0.5), maxval=fan_in**-0.5)

        keys = jax.random.split(key, 4)
        return {
            "c": jnp.float32(self.c),
            "multiplier": jnp.float32(1.0),
            "hidden_kernel": uniform(keys[0], 1, self.hidden),
            "hidden_bias": uniform(keys[1], 1, self.hidden),
            "out_kernel": uniform(keys[2], self.hidden, self.hidden, num_heads),
            "out_bias": uniform(keys[3], self.hidden, num_heads),
        }

    def bias(self, params, q_positions, k_positions, *, num_heads):
        return fire(params, q_positions, k_positions, threshold=self.threshold)


@dataclass(frozen=True)
class Cope(Encoding):
    """Contextual position encoding: positions that the query counts (`jrope.cope`).

    The table starts at zero, as in the paper's listing: an untrained model has no position. One table serves all layers.

    Attributes:
      max_positions: rows of the table; the count stops at the last.
    """

    max_positions: int = 64

    def __post_init__(self):
        if self.max_positions < 1:
            raise ValueError(f"Cope: max_positions must be at least 1, got {self.max_positions}")

    def init(self, key, *, features, num_heads, head_dim):
        return {"table": jnp.zeros((self.max_positions, head_dim))}

    def content_bias(self, params, q, k, q_positions, k_positions, *, visible, scale):
        return cope(params["table"], q, k, q_positions, k_positions, visible=visible, scale=scale)
