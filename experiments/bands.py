"""The spectrum of every RoPE in an experiment, as it is at the longest evaluated length: what explains the results."""

from typing import Any

import jax
import numpy as np

import jrope
from experiments.config.experiment import Experiment


def bands(experiment: Experiment) -> dict[str, dict[str, Any]]:
    """For each encoding that rotates: the radians per position of its pairs [P], and the amplitude of its cosines."""
    longest = max(experiment.evaluate.multiples)
    found = {}
    for label in experiment.encodings:
        spectra = _spectra(experiment.acting(label, longest))
        if len(spectra) == 1:
            frequencies, amplitude = np.asarray(spectra[0].frequencies, np.float64), float(spectra[0].amplitude)
            found[label] = {"frequencies": frequencies.tolist(), "amplitude": amplitude}
    return found


def _spectra(encoding: jrope.Encoding) -> list[jrope.Spectrum]:
    leaves = jax.tree.leaves(encoding, is_leaf=lambda leaf: isinstance(leaf, jrope.Spectrum))
    return [leaf for leaf in leaves if isinstance(leaf, jrope.Spectrum)]
