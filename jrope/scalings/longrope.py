"""LongRoPE: one list of divisors up to the trained length, another beyond."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jrope import arguments, checks
from jrope.spectrum import AnySpectrum

__all__ = ["LongRope"]


@dataclass(frozen=True)
class LongRope:
    """LongRoPE divides every band by a number, from one of two lists.

        g_i = f_i / (short_factor_i if length <= original_length else long_factor_i)
        amplitude = attention_factor or sqrt(1 + ln(factor) / ln(original_length))

    The amplitude is the same for both lists, and 1 for a factor of at most 1. The length is that of
    the sequence, not of the memory allocated for it. Exactly `original_length` is short, and so is
    `length=None`. A sequence that is decoded beyond the trained length changes its list: give one
    length for all of it, or rotate the cached keys again (`jrope.rerotate`).
    Ding et al. 2024, arXiv:2402.13753; the form of Phi-3 and transformers.

    Attributes:
      short_factor, long_factor: P positive numbers each.
      original_length: the trained length.
      factor: new length over trained length (max_position_embeddings /
        original_max_position_embeddings); only the amplitude depends on it.
      attention_factor: the amplitude, instead of the formula.

    Raises:
      ValueError: if a field is out of its range, or (when called) if the lists do not have P
        numbers.
    """

    name: ClassVar[str] = "longrope"
    depends_on_length: ClassVar[bool] = True  # so that `Rope` does not go without

    short_factor: tuple[float, ...]
    long_factor: tuple[float, ...]
    original_length: int
    factor: float = 1.0
    attention_factor: float | None = None

    def __post_init__(self):
        arguments.check_fields(self)
        for name in ("short_factor", "long_factor"):
            factors = tuple(getattr(self, name))
            object.__setattr__(self, name, factors)
            if not (np.all(np.isfinite(factors)) and all(factor > 0 for factor in factors)):
                raise ValueError(f"LongRope: {name} must be positive finite numbers, got {factors}")
        checks.finite("LongRope", "original_length", self.original_length, least=1)
        checks.finite("LongRope", "factor", self.factor, above=0)
        if self.attention_factor is not None:
            checks.finite("LongRope", "attention_factor", self.attention_factor, above=0)

    @arguments.checked()
    def __call__(self, spectrum: AnySpectrum, *, length: float | None = None) -> AnySpectrum:
        sizes = len(self.short_factor), len(self.long_factor)
        if {*sizes} != {spectrum.num_pairs}:
            sizes = "short_factor has {} numbers and long_factor {}".format(*sizes)
            raise ValueError(f"LongRope: {sizes}, but the spectrum has {spectrum.num_pairs} bands")

        def divided_by(factors):
            return spectrum.scaled(spectrum.frequencies / np.array(factors), self.amplitude())

        past = length is not None and checks.host(length) > self.original_length
        if checks.is_concrete(past):
            return divided_by(self.long_factor if past else self.short_factor)
        long, short = divided_by(self.long_factor), divided_by(self.short_factor)
        return jax.tree.map(partial(jnp.where, past), long, short)

    def amplitude(self) -> float:
        """The factor on cos and sin."""
        if self.attention_factor is not None:
            return self.attention_factor
        if self.factor <= 1:
            return 1.0
        if self.original_length < 2:
            least = f"an original_length of at least 2, got {self.original_length}"
            raise ValueError(f"LongRope: a factor above 1 needs {least}")
        return float(np.sqrt(1 + np.log(self.factor) / np.log(self.original_length)))
