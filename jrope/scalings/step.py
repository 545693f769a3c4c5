"""The plainest form of "NTK-by-parts"."""

from dataclasses import dataclass
from typing import ClassVar

from jrope import arguments, checks
from jrope.scalings.llama3 import Llama3
from jrope.spectrum import AnySpectrum

__all__ = ["Step"]


@dataclass(frozen=True)
class Step:
    """Interpolates only the bands whose wavelength is longer than the trained length.

        g_i = f_i / factor if 2 pi / f_i > original_length else f_i

    The plainest form of "NTK-by-parts", Peng et al. 2023, arXiv:2309.00071, section 3.2: both ends
    of its ramp are at one turn. A band that completes a turn has shown the model all of its angles
    in training; one that does not would meet new angles beyond it.

    Attributes:
      factor: new length over trained length, at least 1.
      original_length: the trained length.
    """

    name: ClassVar[str] = "step"

    factor: float
    original_length: int

    def __post_init__(self):
        arguments.check_fields(self)
        checks.finite("Step", "factor", self.factor, least=1)
        checks.finite("Step", "original_length", self.original_length, least=1)

    @arguments.checked()
    def __call__(self, spectrum: AnySpectrum, *, length: float | None = None) -> AnySpectrum:
        return Llama3(self.factor, self.original_length, 1.0, 1.0)(spectrum)
