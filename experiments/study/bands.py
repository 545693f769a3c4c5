"""The spectrum of each RoPE at the longest evaluated length, which explains the results."""

from collections.abc import Sequence

import jax
import numpy as np

import jrope
from experiments.study.result import Bands
from experiments.training.job import TrainingJob


def bands(jobs: Sequence[TrainingJob]) -> dict[str, Bands]:
    """For each encoding that rotates with one spectrum: its frequencies and its amplitude."""
    found = {}
    for job in jobs:
        longest = max(job.evaluations, key=lambda evaluation: evaluation.context)
        length = job.train.positions.num_positions(longest.context)
        head_dim = job.train.model.sizes["head_dim"]
        for own in longest.encodings:
            is_bound = own.limit is None
            bound = (
                own.encoding if is_bound else own.encoding.bind(head_dim=head_dim, length=length)
            )
            spectra = _spectra(bound)
            if len(spectra) == 1:
                frequencies = np.asarray(spectra[0].frequencies, np.float64).tolist()
                amplitude = float(spectra[0].amplitude)
                found[own.label] = {"frequencies": frequencies, "amplitude": amplitude}
    return found


def _spectra(encoding: jrope.Encoding) -> list[jrope.Spectrum]:
    leaves = jax.tree.leaves(encoding, is_leaf=lambda leaf: isinstance(leaf, jrope.Spectrum))
    return [leaf for leaf in leaves if isinstance(leaf, jrope.Spectrum)]
