"""A job of a study: what to train, on which seeds, from what, and where to evaluate it."""

from dataclasses import dataclass
from pathlib import Path

import jrope
from experiments.training.train import TrainConfig


@dataclass(frozen=True)
class EvaluatedEncoding:
    """An encoding that a job's parameters are evaluated with.

    Attributes:
      label: of its rows.
      encoding: bound to head size and length; not bound where `limit` is set.
      limit: how many positions it has a value for, where the evaluated length goes past them.
        There is no score then.
    """

    label: str
    encoding: jrope.Encoding
    limit: int | None = None


@dataclass(frozen=True)
class Evaluation:
    """One length at which a job is evaluated, after `step` steps of its training.

    Attributes:
      multiple: of the trained length.
      length: in the task's own measure.
      context: tokens that the model reads.
      encodings: the job's own first.
    """

    step: int
    multiple: float
    length: int
    context: int
    sequences: int
    encodings: tuple[EvaluatedEncoding, ...]


@dataclass(frozen=True)
class TrainingJob:
    """Plain data that can be pickled and sent to another machine.

    Attributes:
      index: names its folder in the run's `encodings/`.
      encoding: what acts in training, bound to head size and length.
      report_every: steps between two rows of metrics.
      evaluations: in the order of the rows: by step, then multiples with 1 first. Each has the same
        labels.
      parent: label of the job whose final parameters this one starts from (fine-tuning).
      config_sha256: names the config in its checkpoints.
    """

    index: int
    label: str
    seeds: tuple[int, ...]
    train: TrainConfig
    encoding: jrope.Encoding
    report_every: int
    evaluations: tuple[Evaluation, ...]
    parent: str | None = None
    config_sha256: str = ""

    def folder_in(self, directory: Path) -> Path:
        """Its folder in the directory of the run."""
        return directory / "encodings" / str(self.index)
