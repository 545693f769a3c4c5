"""What a complete run leaves behind: the types of its `result.json`, and how it is read."""

import json
from pathlib import Path
from typing import (
    Annotated,
    Any,
    NotRequired,  # pydantic reads those of typing only from Python 3.12 on
)

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from experiments.study.files import as_disk_error
from experiments.text import shown, shown_path

FORMAT = 2  # of a run's files; other formats are refused


class DirectoryError(Exception):
    """A directory that cannot be used as that of a run, and why."""


class Row(TypedDict):
    """The scores of one encoding at one length for one seed."""

    encoding: str
    seed: int
    multiple: float  # of the trained length
    length: int
    context: int  # tokens that the model reads
    metrics: dict[str, float]  # empty where there is no value
    by_position: NotRequired[dict[str, list[float]]]  # in equal parts of the answers, first to last
    fitted: bool  # whether the trained model has learned the task at the trained length
    finetuned: NotRequired[int]  # steps of fine-tuning before these scores
    limit: NotRequired[int]  # positions the encoding has a value for, where the length exceeds them
    diverged: NotRequired[int]  # the step by which training had diverged


class MetricFacts(TypedDict):
    name: str  # its key in a row's metrics
    title: str
    unit: str
    higher_is_better: bool


class TaskFacts(TypedDict):
    """What a reader of the scores must know about the task. The first metric ranks encodings."""

    type: str
    trained_length: int
    trained_context: int
    chance: float
    chance_loss: float
    floor: float
    fitted_means: str
    metrics: Annotated[list[MetricFacts], Field(min_length=1)]
    parents: dict[str, str]  # of each encoding the trained one: itself, or the one it extends


class Bands(TypedDict):
    """A RoPE spectrum at the longest evaluated length."""

    frequencies: list[float]  # radians per position, of each pair
    amplitude: float


class EvaluateFacts(TypedDict):
    sequences: int


class FineTuneFacts(TypedDict):
    multiple: float


class SweptFacts(TypedDict):
    of: str
    values: dict[str, bool | int | float | str]


class EncodingFacts(TypedDict):
    panel: NotRequired[str]
    swept: NotRequired[SweptFacts]


class ConfigFacts(TypedDict):
    """The parts of the config that readers of the scores use."""

    title: str
    seeds: list[int]
    evaluate: EvaluateFacts
    finetune: NotRequired[FineTuneFacts]
    encodings: dict[str, EncodingFacts]


class Result(TypedDict):
    """All that figures, tables and reports read."""

    format: int
    command: str
    environment: dict[str, Any]
    config: dict[str, Any]
    task: TaskFacts
    bands: dict[str, Bands]
    rows: list[Row]


def read(directory: str | Path) -> Result:
    """The result of a complete run.

    Raises:
      DirectoryError: if there is none, or this version cannot read it.
      DiskError: if the file cannot be read.
    """
    directory = Path(directory)
    path = directory / "result.json"
    with as_disk_error(path):
        is_complete, has_begun = path.exists(), (directory / "manifest.json").exists()
    if not is_complete:
        reason = "the run is not complete" if has_begun else "not the directory of a run"
        raise DirectoryError(f"{shown_path(directory)}: no result.json: {reason}")
    result = read_object(path)
    try:
        result = TypeAdapter(Result).validate_python(result)
        TypeAdapter(ConfigFacts).validate_python(result["config"])
    except ValidationError as error:
        first, count = error.errors(include_url=False)[0], error.error_count()
        place = ".".join(map(str, first["loc"]))
        what = f"{place}: {first['msg']} ({count} such faults)"
        raise DirectoryError(f"{shown_path(path)}: not the result of a run: {what}") from None
    at_trained_length = {row["encoding"] for row in result["rows"] if row["multiple"] == 1}
    if at_trained_length != set(result["task"]["parents"]):
        raise DirectoryError(f"{shown_path(path)}: not the result of a run: rows at 1x are missing")
    return result


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file of a run.

    Raises:
      DirectoryError: if it holds anything else, or has another format.
      DiskError: if the file cannot be read.
    """
    with as_disk_error(path):
        data = path.read_bytes()
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DirectoryError(f"{shown_path(path)}: not readable as JSON: {error}") from None
    if not isinstance(value, dict):
        raise DirectoryError(
            f"{shown_path(path)}: should hold an object, holds {type(value).__name__}"
        )
    if (found := value.get("format")) != FORMAT:
        expected = f"this version of jrope reads format {FORMAT}"
        raise DirectoryError(f"{shown_path(path)}: has format {shown(found)}, but {expected}")
    return value
