"""The command line. Modules that import jax or altair are imported by the command that needs them, so that help is instant."""

import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

CONFIGS = Path(__file__).parent.parent / "configs"
BAD_INPUT, DIVERGED, DISK, INTERRUPTED = 2, 3, 4, 130

app = typer.Typer(
    help="Train small transformers over positional encodings and seeds, and plot how each extrapolates in length.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out, err = Console(), Console(stderr=True)

Config = Annotated[Path, typer.Argument(help="A config file, such as configs/quick.toml.", metavar="CONFIG")]
Overrides = Annotated[
    list[str] | None, typer.Argument(help="Fields to set, such as train.steps=500.", metavar="path.to.field=value")
]


@app.command()
def run(
    config: Config,
    overrides: Overrides = None,
    directory: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="A new folder, or a run to go on with; by default a new one in runs/."),
    ] = None,
):
    """Train, evaluate, draw and report one experiment. The last line printed is the report's path."""
    stop = _stop_event()
    experiment = _load(config, overrides)
    directory = directory or Path("runs") / f"{config.stem}-{datetime.now():%Y%m%d-%H%M%S}"
    command = shlex.join(["python", "-m", "experiments", "run", str(config), *(overrides or [])])
    _run(experiment, directory, command, stop)


@app.command()
def resume(directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory of a run that was stopped.")]):
    """Go on with a run from its last checkpoints, with the config that it began with."""
    stop = _stop_event()
    from experiments.load import ConfigError, validate
    from experiments.store import StoreError, config_of

    try:
        config, command = config_of(directory)
        experiment = validate(config)
    except (ConfigError, StoreError) as error:
        _fail(str(error), BAD_INPUT)
    _run(experiment, directory, command, stop)


def _stop_event():
    from experiments.signals import stop_event

    return stop_event(INTERRUPTED)


def _run(experiment, directory: Path, command: str, stop):
    from experiments import compilation, progress, report, results, tables
    from experiments import run as runs
    from experiments.files import DiskError
    from experiments.store import StoreError

    compilation.use_cache()
    try:
        result = runs.run(experiment, directory, lambda: progress.display(out), command, stop, _warn)
        path = report.write(result, directory)
    except StoreError as error:
        _fail(str(error), BAD_INPUT)
    except DiskError as error:
        saved = (directory / "manifest.json").exists()
        remedy = f". What was saved before is whole; go on with: python -m experiments resume {shlex.quote(str(directory))}"
        _fail(str(error) + remedy * saved, DISK)
    except runs.Stopped:
        _fail(f"Stopped, and saved. Go on with: python -m experiments resume {shlex.quote(str(directory))}", INTERRUPTED)
    tables.show(result, out)
    print(path)
    if results.diverged(result):
        raise typer.Exit(DIVERGED)


def _warn(message: str):
    err.print(message, markup=False, highlight=False, soft_wrap=True)


@app.command()
def validate(config: Config, overrides: Overrides = None):
    """Check a config, and say every mistake in it, without running anything."""
    experiment = _load(config, overrides)
    trained, evaluated = len(experiment.trained()), len(experiment.encodings)
    print(f"{config}: valid: {trained} encodings to train, {evaluated} to evaluate, {len(experiment.seeds)} seeds")


@app.command("list")
def list_():
    """The configs that come with jrope, what each shows, and how long it takes."""
    import tomllib

    from rich.table import Table

    table = Table("config", "shows", "time", box=None, pad_edge=False)
    for path in sorted(CONFIGS.glob("*.toml")):
        text = path.read_text(encoding="utf-8")
        takes = [line.removeprefix("# Time:").strip() for line in text.splitlines() if line.startswith("# Time:")]
        shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        table.add_row(str(shown), tomllib.loads(text).get("title", ""), *takes)
    out.print(table)


@app.command()
def report(directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory of a complete run.")]):
    """Draw the figures and the report of a run again, from its stored results."""
    from experiments import report as reports
    from experiments import store, tables
    from experiments.files import DiskError

    try:
        result = store.read(directory)
        path = reports.write(result, directory)
    except store.StoreError as error:
        _fail(str(error), BAD_INPUT)
    except DiskError as error:
        _fail(str(error), DISK)
    tables.show(result, out)
    print(path)


def _load(config: Path, overrides: list[str] | None):
    from experiments.load import ConfigError, load

    try:
        return load(config, overrides or [])
    except ConfigError as error:
        _fail(str(error), BAD_INPUT)


def _fail(message: str, status: int) -> NoReturn:
    _warn(message)
    raise typer.Exit(status)


if __name__ == "__main__":
    sys.exit(app(prog_name="python -m experiments"))
