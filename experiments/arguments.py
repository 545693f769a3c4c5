"""The arguments of the commands, as types that typer reads."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.status import BAD_INPUT
from experiments.terminal import fail
from experiments.text import shown


def _path(argument: str) -> Callable[[Any], Path]:
    """Reads a path. It is on one line, since messages and tables show it."""

    def read(given: str | Path) -> Path:
        text = str(given)
        if not text or any(ord(c) < 32 for c in text):
            wanted = "a path without line breaks and control characters"
            fail(f"{argument}: should be {wanted}, got {shown(text)}", BAD_INPUT)
        return Path(text)

    return read


def _argument(metavar: str, text: str) -> Any:
    return typer.Argument(metavar=metavar, parser=_path(metavar.strip(".")), help=text)


def _out(metavar: str, text: str) -> Any:
    return typer.Option("--out", metavar=metavar, parser=_path("--out"), help=text)


Config = Annotated[Path, _argument("CONFIG", "A config file, such as configs/quick.toml.")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(help="Fields to set, such as train.steps=500.", metavar="path.to.field=value"),
]
StoppedRun = Annotated[Path, _argument("DIR", "The directory of a run that was stopped.")]
CompleteRuns = Annotated[
    list[Path] | None, _argument("DIR...", "The directories of complete runs.")
]
RunOutput = Annotated[
    Path | None,
    _out("DIR", "A new folder, or a run to continue; by default a new one in runs/."),
]
RunsOutput = Annotated[Path, _out("DIR", "Has a folder for each run, new or begun.")]
ReportOutput = Annotated[
    Path | None,
    _out("DIR", "Where the files go: by default the run's own folder, or runs/comparison."),
]
PlotOutput = Annotated[
    Path | None, _out("FILE", "The plot: .svg, .png or .pdf; by default in runs/show/.")
]
