"""Position interpolation."""

from dataclasses import dataclass
from typing import ClassVar

from jrope import arguments, checks
from jrope.spectrum import AnySpectrum

__all__ = ["Linear"]


@dataclass(frozen=True)
class Linear:
    """Position interpolation: every position is divided by the factor.

        g_i = f_i / factor

    Chen et al. 2023, arXiv:2306.15595.

    Attributes:
      factor: new length over trained length, at least 1.
    """

    name: ClassVar[str] = "linear"

    factor: float

    def __post_init__(self):
        arguments.check_fields(self)
        checks.finite("Linear", "factor", self.factor, least=1)

    @arguments.checked()
    def __call__(self, spectrum: AnySpectrum, *, length: float | None = None) -> AnySpectrum:
        return spectrum.scaled(spectrum.frequencies / self.factor)
