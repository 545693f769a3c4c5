"""A spectrum: how fast each pair of features turns with position. It is the data of a rotation.

A `Spectrum` is exact: its angles are right at any integer position, and nothing that moves it (jit,
a device, a checkpoint) changes that. A `LearnedSpectrum` has float32 frequencies that may be traced
and have gradients; its angles are float32 products. Both are pytrees of arrays, and two spectra of
one type and size are interchangeable as arguments of a jitted function: one compiled program.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jrope import arguments, checks, exact, serialization

Axes = tuple[int, ...] | None
Scaling = Callable[..., "Spectrum | LearnedSpectrum"]
_REMEDY = (
    "make or scale it outside jit (an encoding: bind(head_dim=, length=)) and pass the result in,"
    " or use jrope.LearnedSpectrum, whose angles are float32 products"
)


class _Spectrum:
    """What both kinds have: one array of numbers for the pairs, an amplitude, and the axes.

    Frozen. Equal spectra hold the same numbers. A traced one equals only itself and has no hash.
    """

    _numbers: ClassVar[str]  # the attribute that holds them, pairs last
    frequencies: Any
    amplitude: Any
    axes: Axes

    def __setattr__(self, name, value):
        raise AttributeError(
            f"{type(self).__name__} is frozen: make a new one, for example with scaled()"
        )

    @classmethod
    def _make(cls, numbers, amplitude, axes: Axes) -> Self:
        self = object.__new__(cls)  # of leaves that may be anything, tracers above all: unchecked
        for name, value in ((cls._numbers, numbers), ("amplitude", amplitude), ("axes", axes)):
            object.__setattr__(self, name, value)
        return self

    def _init(self, numbers, amplitude, axes):
        made = self._make(
            numbers, _as_array(amplitude), _checked(type(self).__name__, axes, numbers.shape[-1])
        )
        for name, value in vars(made).items():
            object.__setattr__(self, name, value)

    @property
    def angle_operand(self) -> Any:
        """The numbers that `jrope.exact.tables` makes angles of."""
        return getattr(self, self._numbers)

    @property
    def num_pairs(self) -> int:
        return getattr(self, self._numbers).shape[-1]

    def scaled(self, frequencies, amplitude: Any = 1.0) -> Self:
        """This spectrum at other frequencies [P] and a multiple of its amplitude, with its axes."""
        return type(self)(frequencies, _as_array(self.amplitude) * amplitude, self.axes)  # type: ignore[call-arg]

    def with_axes(self, axes: Axes, pairs: Any = slice(None)) -> Self:
        """The same pairs, or those of these indices, turned by these position axes."""
        numbers = self.angle_operand[..., pairs]
        return self._make(
            numbers, self.amplitude, _checked(type(self).__name__, axes, numbers.shape[-1])
        )

    def __repr__(self):
        axes = "" if self.axes is None else f", axes={self.axes}"
        numbers = self._leaves()[0]  # a pytree may hold anything here
        shown = "traced" if not checks.is_concrete(numbers) else repr(numbers)
        if isinstance(numbers, jax.Array | np.ndarray) and shown != "traced":
            shown = np.array2string(np.asarray(self.frequencies), threshold=8)
        return f"{type(self).__name__}({shown}, amplitude={self.amplitude}{axes})"

    def _leaves(self) -> tuple[Any, Any]:
        return getattr(self, self._numbers), self.amplitude

    def __eq__(self, other):
        if type(self) is not type(other) or self.axes != other.axes:
            return False
        pairs = zip(self._leaves(), other._leaves(), strict=True)
        return all(a is b or (_is_known(a, b) and np.array_equal(a, b)) for a, b in pairs)

    def __hash__(self):
        if not _is_known(*self._leaves()):
            name = type(self).__name__
            raise TypeError(
                f"{name}: a traced spectrum has no hash: pass it as data, not as a static argument"
            )
        # of numbers, not bytes: equal amplitudes may differ in dtype, and 0.0 equals -0.0
        numbers = (tuple(np.asarray(leaf).ravel().tolist()) for leaf in self._leaves())
        return hash((type(self), self.axes, *numbers))

    def tree_flatten_with_keys(self):
        keys = map(jax.tree_util.GetAttrKey, (self._numbers, "amplitude"))
        return list(zip(keys, self._leaves(), strict=True)), self.axes

    @classmethod
    def tree_unflatten(cls, axes, children):
        return cls._make(*children, axes=axes)


@jax.tree_util.register_pytree_with_keys_class
class Spectrum(_Spectrum):
    """An exact spectrum, made from frequencies [P] in radians per position.

    Attributes:
      phase_increments: uint32 [5, P], the frequencies as fixed-point turns (see `jrope.exact`).
      amplitude: multiplies cos and sin (YaRN's and LongRoPE's attention factor), so that scores
        grow by its square.
      axes: P integers, the position axis that turns each pair (see `Sections`, `Axial`); None where
        positions have one axis. It is part of a program, not data.

    Raises:
      TypeError: if the frequencies are traced, which have no exact value.
      ValueError: if they are not finite, or `axes` does not name an axis for every pair.
    """

    _numbers = "phase_increments"
    phase_increments: Any

    @arguments.checked(frequencies="real [P]")
    def __init__(self, frequencies, amplitude: float = 1.0, axes: Axes = None):
        if not checks.is_concrete(frequencies):
            raise TypeError(
                f"Spectrum: frequencies are traced, so no angle can be exact: {_REMEDY}"
            )
        self._init(exact.phase_increments(np.asarray(frequencies, np.float64)), amplitude, axes)

    @property
    def frequencies(self) -> np.ndarray:  # type: ignore[override]
        """Radians per position, float64 [P].

        Raises:
          TypeError: if the spectrum is traced.
        """
        if not checks.is_concrete(self.phase_increments):
            raise TypeError(f"Spectrum: it is traced, so its frequencies cannot be read: {_REMEDY}")
        return exact.frequencies(self.phase_increments)

    @property
    def angle_operand(self) -> Any:
        if (dtype := jnp.result_type(self.phase_increments)) != jnp.uint32:
            raise TypeError(
                f"Spectrum: phase_increments must be uint32, got {dtype}: do not cast them"
            )
        return self.phase_increments

    def minus(self, other: "Spectrum") -> "Spectrum":
        """The spectrum that turns what `other` rotated into what this one rotates; exact."""
        increments = exact.difference(self.angle_operand, other.angle_operand)
        return self._make(increments, self.amplitude / other.amplitude, self.axes)


@jax.tree_util.register_pytree_with_keys_class
class LearnedSpectrum(_Spectrum):
    """A spectrum of float32 frequencies [P], which may be traced and have gradients.

    Its angles are float32 products, with an error of 6e-8 times the angle: 6e-2 in a cosine at
    position 10^6. `amplitude` and `axes` are those of `Spectrum`.

    Raises:
      ValueError: if `axes` does not name an axis for every pair.
    """

    _numbers = "frequencies"

    @arguments.checked(frequencies="real [P]")
    def __init__(self, frequencies, amplitude: float = 1.0, axes: Axes = None):
        self._init(jnp.asarray(frequencies, jnp.float32), amplitude, axes)

    def minus(self, other: "LearnedSpectrum") -> "LearnedSpectrum":
        """The spectrum that turns what `other` rotated into what this one rotates."""
        return self.scaled(self.frequencies - other.frequencies, 1 / other.amplitude)


AnySpectrum = TypeVar("AnySpectrum", bound=Spectrum | LearnedSpectrum)

for _kind in (Spectrum, LearnedSpectrum):
    serialization.register(_kind, _kind.tree_unflatten)


def _is_known(*leaves) -> bool:
    return all(checks.is_concrete(leaf) for leaf in leaves)


def _as_array(amplitude):
    # libraries that split a pytree into arrays and the rest would make a number part of a program
    return np.asarray(amplitude, np.float64) if checks.is_concrete(amplitude) else amplitude


def _checked(owner: str, axes, pairs: int) -> Axes:
    if axes is None:
        return None
    axes = tuple(int(axis) for axis in checks.number(axes))
    if len(axes) != pairs or min(axes) < 0:
        raise ValueError(
            f"{owner}: axes must be {pairs} axis numbers from 0, one for each pair, got {axes}"
        )
    return axes


@arguments.checked()
def spectrum(dim: int, *, base: float = 10_000.0) -> Spectrum | LearnedSpectrum:
    """The geometric spectrum of RoPE, `frequencies[i] = base^(-2i/dim)` for `i < dim/2`.

    Args:
      dim: how many features rotate; even.
      base: the paper's 10,000; also called rope_theta. A traced one, to vmap or differentiate over
        bases, gives a `LearnedSpectrum`.

    Raises:
      ValueError: if `dim` is odd or below 2, or `base` is not positive and finite.
    """
    checks.even("spectrum", "dim", dim)
    checks.positive("spectrum", "base", base)
    exponents = -np.arange(0, dim, 2, dtype=np.float64) / dim
    if not checks.is_concrete(base):
        return LearnedSpectrum(
            jnp.power(jnp.asarray(base, jnp.float32), exponents.astype(np.float32))
        )
    return Spectrum(np.float64(base) ** exponents)
