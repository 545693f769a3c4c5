"""The command line. Modules that import jax or altair are imported by the command that needs them, so that help is instant."""

import shlex
import sys
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from experiments.status import BAD_INPUT, DIFFERENT, DISK, DIVERGED, INTERRUPTED, MEMORY

CONFIGS = Path(__file__).parent.parent / "configs"

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


class Tracker(StrEnum):
    """The names in `experiments.trackers`, here so that help is instant."""

    tensorboard = "tensorboard"
    wandb = "wandb"
    trackio = "trackio"


Track = Annotated[
    list[Tracker] | None,
    typer.Option("--track", help="Tell a tracker, too, how the run goes; may be given several times."),
]


@app.command()
def run(
    config: Config,
    overrides: Overrides = None,
    directory: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="A new folder, or a run to go on with; by default a new one in runs/."),
    ] = None,
    track: Track = None,
):
    """Train, evaluate, draw and report one experiment. The last line printed is the report's path."""
    stop = _stop_event()
    experiment = _load(config, overrides)
    directory = directory or Path("runs") / f"{config.stem}-{datetime.now():%Y%m%d-%H%M%S}"
    command = shlex.join(["python", "-m", "experiments", "run", str(config), *(overrides or [])])
    _end(_run(experiment, directory, command, stop, track))


@app.command()
def resume(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory of a run that was stopped.")],
    track: Track = None,
):
    """Go on with a run from its last checkpoints, with the config that it began with."""
    stop = _stop_event()
    from experiments.config.load import ConfigError, validate
    from experiments.store import StoreError, config_of

    try:
        config, command = config_of(directory)
        experiment = validate(config)
    except (ConfigError, StoreError) as error:
        _fail(str(error), BAD_INPUT)
    _end(_run(experiment, directory, command, stop, track))


def _end(result):
    from experiments import results

    if results.diverged(result):
        raise typer.Exit(DIVERGED)


def _stop_event():
    from experiments.signals import stop_event

    return stop_event(INTERRUPTED)


def _run(experiment, directory: Path, command: str, stop, track: Sequence[str] | None = None):
    from experiments import compilation, progress, tables, trackers
    from experiments import run as runs
    from experiments.config.size import OutOfMemory
    from experiments.files import DiskError
    from experiments.store import StoreError

    compilation.use_cache()
    resume = f"python -m experiments resume {shlex.quote(str(directory))}"
    try:
        with trackers.Tracking(track or (), _warn) as tracking:

            def display():
                return tracking.display(progress.display(out), directory, experiment.record())

            result = runs.run(experiment, directory, display, command, stop, _warn)
            tracking.tell("results", result["rows"])
        from experiments import report  # here, since the library of charts takes as long to import as a first step

        path = report.write(result, directory)
    except (StoreError, trackers.TrackerError) as error:
        _fail(str(error), BAD_INPUT)
    except DiskError as error:
        saved = (directory / "manifest.json").exists()
        _fail(str(error) + f". What was saved before is whole; go on with: {resume}" * saved, DISK)
    except OutOfMemory as error:
        _fail(f"{error}. What was saved before is whole; where there is more memory, go on with: {resume}", MEMORY)
    except runs.Stopped:
        _fail(f"Stopped, and saved. Go on with: {resume}", INTERRUPTED)
    tables.show(result, out)
    print(path)
    return result


def _warn(message: str):
    err.print(message, markup=False, highlight=False, soft_wrap=True)


@app.command()
def validate(config: Config, overrides: Overrides = None):
    """Check a config without running anything: every mistake in keys and values, then every one in how they fit together."""
    experiment = _load(config, overrides)
    trained, evaluated = len(experiment.stages()), len(experiment.encodings)
    print(f"{config}: valid: {trained} encodings to train, {evaluated} to evaluate, {len(experiment.seeds)} seeds")


@app.command("list")
def list_():
    """The configs that come with jrope, what each shows, and how long it takes."""
    from experiments.show.configs import configs

    configs(CONFIGS, out)


@app.command()
def show(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME|FILE] [field=value]...",
            help="An encoding or scaling by the name that configs use, such as yarn or alibi, with fields to set; or a"
            " published model's config.json. Without any: all names.",
        ),
    ] = None,
    head_dim: Annotated[int | None, typer.Option(min=1, max=65_536, help="Features of a head; 64, or the model's.")] = None,
    heads: Annotated[int, typer.Option(min=1, max=1024, help="Attention heads.")] = 8,
    trained: Annotated[int | None, typer.Option(min=1, max=10**9, help="The trained length; 4096, or the model's.")] = None,
    length: Annotated[
        int | None, typer.Option(min=1, max=10**9, help="That of the sequence; 4 times it, or the model's.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="List every pair of features.")] = False,
    plot: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The plot: .svg, .png or .pdf; by default in runs/show/.")
    ] = None,
):
    """What an encoding is: its formula, its bands and which never complete a turn in training, its biases; and a plot."""
    if plot and plot.suffix.lower() not in (".svg", ".png", ".pdf"):
        _fail(f"--out: should end in .svg, .png or .pdf, got {plot}", BAD_INPUT)
    from experiments.config.load import ConfigError
    from experiments.files import DiskError, telling
    from experiments.show import describe, subjects

    if not words or (len(words) == 1 and words[0] in subjects.KINDS):
        describe.names(out)
        return
    sizes = subjects.Sizes(head_dim, heads, trained, length)
    try:
        found = subjects.subjects(words, sizes)
        for subject in found:
            describe.describe(subject, out, every=every)
        from experiments.figures.encoding import encoding

        chart = encoding(found)
        if chart is not None:
            plot = plot or Path("runs/show") / f"{found[0].stem}.svg"
            with telling(plot):
                plot.parent.mkdir(parents=True, exist_ok=True)
                chart.save(str(plot))
            print(plot)
    except (ConfigError, ValueError, OverflowError) as error:
        _fail(str(error), BAD_INPUT)
    except DiskError as error:
        _fail(str(error), DISK)


Directories = Annotated[list[Path] | None, typer.Argument(metavar="DIR...", help="The directories of complete runs.")]
Output = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Where to: by default the run's own folder, or runs/comparison.")
]


@app.command()
def report(
    directories: Directories = None,
    every: Annotated[bool, typer.Option("--all", help="All stored results of the study, and its claims.")] = False,
    output: Output = None,
):
    """Draw figures and report again from stored results; of several runs of one task, in one report that compares them."""
    if bool(directories) == every:
        _fail("report: give either directories of runs or --all", BAD_INPUT)
    from experiments import report as reports
    from experiments import results, store, study, tables
    from experiments.files import DiskError

    try:
        if every:
            for name in study.names():
                print(reports.write(study.stored(name), study.STUDY / name))
            print(study.write_claims())
            return
        runs = {directory: store.read(directory) for directory in directories or []}
        if len(runs) == 1:
            ((directory, result),) = runs.items()
            path = reports.write(result, directory, output)
        else:
            names = {directory.name for directory in runs}
            told = {directory.name if len(names) == len(runs) else str(directory): run for directory, run in runs.items()}
            result = results.merged(told)
            path = reports.write_comparison(result, told, output or Path("runs/comparison"))
        tables.show(result, out)
        print(path)
    except (store.StoreError, results.Incomparable) as error:
        _fail(str(error), BAD_INPUT)
    except DiskError as error:
        _fail(str(error), DISK)


@app.command()
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Configs, such as quick; by default all.")] = None,
    directory: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="A run in it for each, new or to go on with.")
    ] = Path("runs/study"),
    seeds: Annotated[str, typer.Option(help="Other seeds than those stored, such as 5,6,7,8,9.")] = "",
):
    """Train the stored study again, all or some of it, and say where the new results do not bear out the stored ones."""
    stop = _stop_event()
    from experiments import store, study

    chosen = names or study.names()
    for name in chosen:
        if name not in study.names():
            _fail(f"{name!r}: no stored result of that name, expected one of {', '.join(study.names())}", BAD_INPUT)
    overrides = [f"seeds=[{seeds}]"] if seeds else []
    experiments = {name: _load(study.CONFIGS / f"{name}.toml", overrides) for name in chosen}
    differ = False
    for name, experiment in experiments.items():
        command = shlex.join(["python", "-m", "experiments", "run", f"configs/{name}.toml", *overrides])
        new = _run(experiment, directory / name, command, stop)
        try:
            found = list(study.disagreements(study.stored(name), new))
        except store.StoreError as error:
            _fail(str(error), BAD_INPUT)
        told = [f"{name}: {line}" for line in found] or [f"{name}: bears out the stored result"]
        differ |= bool(found)
        for line in told:
            out.print(line, markup=False, highlight=False, soft_wrap=True)
    if differ:
        raise typer.Exit(DIFFERENT)


def _load(config: Path, overrides: list[str] | None):
    from experiments.config.load import ConfigError, load

    try:
        return load(config, overrides or [])
    except ConfigError as error:
        _fail(str(error), BAD_INPUT)


def _fail(message: str, status: int) -> NoReturn:
    _warn(message)
    raise typer.Exit(status)


if __name__ == "__main__":
    sys.exit(app(prog_name="python -m experiments"))
