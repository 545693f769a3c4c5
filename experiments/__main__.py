"""The command line. A command imports what it needs, so that help is instant."""

import os
import shlex
import sys
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from experiments import streams
from experiments.arguments import (
    CompleteRuns,
    Config,
    Overrides,
    PlotOutput,
    ReportOutput,
    RunOutput,
    RunsOutput,
    StoppedRun,
)
from experiments.status import BAD_INPUT, DIFFERENT, DISK, DIVERGED, INTERRUPTED, MEMORY
from experiments.terminal import fail, out, warn
from experiments.text import plain

CONFIGS = Path(__file__).parent.parent / "configs"
OPTIMIZE = sys.flags.optimize  # 1 under python -O, 2 under -OO

app = typer.Typer(
    help="Train small transformers over positional encodings and seeds, and plot how each"
    " extrapolates in length.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Tracker(StrEnum):
    """The names in `experiments.study.trackers`, here so that help is instant."""

    tensorboard = "tensorboard"
    wandb = "wandb"
    trackio = "trackio"


Track = Annotated[
    list[Tracker] | None,
    typer.Option("--track", help="Log the run to a tracker; may be given several times."),
]


@app.command()
def run(
    config: Config,
    overrides: Overrides = None,
    directory: RunOutput = None,
    track: Track = None,
):
    """Train, evaluate and report one experiment. The last line printed is the report's path."""
    _require_docstrings()
    stop = _stop_event()
    experiment = _load(config, overrides)
    directory = directory or Path("runs") / f"{config.stem}-{datetime.now():%Y%m%d-%H%M%S}"
    words = ["python", "-m", "experiments", "run", str(config), *(overrides or [])]
    command = plain(shlex.join(words))
    _end(_run(experiment, directory, command, stop, track))


@app.command()
def resume(directory: StoppedRun, track: Track = None):
    """Continue a run from its last checkpoints, with the config that it began with."""
    _require_docstrings()
    stop = _stop_event()
    from experiments.config.load import ConfigError, validate
    from experiments.study.directory import config_of
    from experiments.study.files import DiskError
    from experiments.study.result import DirectoryError

    try:
        config, command = config_of(directory)
        experiment = validate(config)
    except (ConfigError, DirectoryError) as error:
        fail(str(error), BAD_INPUT)
    except DiskError as error:
        fail(str(error), DISK)
    _end(_run(experiment, directory, command, stop, track))


def _end(results):
    if results.diverged:
        raise typer.Exit(DIVERGED)


def _require_docstrings():
    """Ends before any work where Python has no docstrings: altair, which draws, is made of them."""
    if OPTIMIZE > 1:
        fail(
            "python -OO and PYTHONOPTIMIZE=2 remove the docstrings that charts need: use -O",
            BAD_INPUT,
        )


def _stop_event():
    from experiments.signals import stop_event

    return stop_event(INTERRUPTED)


def _run(experiment, directory: Path, command: str, stop, track: Sequence[str] | None = None):
    """The `Results` of a run, new or continued, after its report is written and its table shown."""
    from experiments.study import progress, tracking
    from experiments.study.files import DiskError
    from experiments.study.hooks import Stopped
    from experiments.study.result import DirectoryError
    from experiments.study.run_job import OutOfMemory
    from experiments.study.run_study import run_study
    from experiments.study.trackers import TrackerError
    from experiments.training import compilation

    compilation.use_cache(warn)
    resume = f"continue with: python -m experiments resume {shlex.quote(str(directory))}"
    try:
        with tracking.Tracking(track or (), warn) as trackers:

            def display():
                shown = progress.display(out)
                return trackers.display(shown, directory, experiment.record())

            result = run_study(experiment, directory, display, command, stop, warn)
            trackers.call("results", result["rows"])
        # here, since the library of charts takes as long to import as a first step
        from experiments.analysis import report, tables
        from experiments.analysis.table import Results

        results = Results(result)
        path = report.write(results, directory)
    except (DirectoryError, TrackerError) as error:
        fail(str(error), BAD_INPUT)
    except DiskError as error:
        has_begun = os.path.exists(directory / "manifest.json")
        fail(f"{error}" + f". What was saved before is whole; {resume}" * has_begun, DISK)
    except OutOfMemory as error:
        remedy = f"What was saved before is whole; where there is more memory, {resume}"
        fail(f"{error}. {remedy}", MEMORY)
    except Stopped:
        fail(f"Stopped and saved; {resume}", INTERRUPTED)
    tables.show(results, out)
    print(path)
    return results


@app.command()
def validate(config: Config, overrides: Overrides = None):
    """Check a config without running it: all keys and values, then how they fit together."""
    experiment = _load(config, overrides)
    from experiments.config.plan import training_runs

    trained, evaluated = len(training_runs(experiment)), len(experiment.encodings)
    counts = f"{trained} encodings to train, {evaluated} to evaluate, {len(experiment.seeds)} seeds"
    print(f"{config}: valid: {counts}")


@app.command("list")
def list_():
    """The configs that come with jrope, what each shows, and how long it takes."""
    from experiments.show.list_configs import list_configs

    list_configs(CONFIGS, out)


@app.command()
def show(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME|FILE] [field=value]...",
            help="An encoding or scaling by its name in configs, such as yarn or alibi, with fields"
            " to set; or a published model's config.json. Without any: all names.",
        ),
    ] = None,
    head_dim: Annotated[
        int | None,
        typer.Option(min=1, max=65_536, help="Features of a head; 64, or the model's."),
    ] = None,
    heads: Annotated[int, typer.Option(min=1, max=1024, help="Attention heads.")] = 8,
    trained: Annotated[
        int | None,
        typer.Option(min=1, max=10**9, help="The trained length; 4096, or the model's."),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(min=1, max=10**9, help="Of the sequence; 4 times trained, or the model's."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="List every pair of features.")] = False,
    plot: PlotOutput = None,
):
    """Describe an encoding: its formula, its bands or biases, and a plot of them."""
    _require_docstrings()
    if plot and plot.suffix.lower() not in (".svg", ".png", ".pdf"):
        fail(f"--out: should end in .svg, .png or .pdf, got {plot}", BAD_INPUT)
    from experiments.config.load import ConfigError
    from experiments.show.describe import describe, list_names
    from experiments.show.parse_query import KINDS, Sizes, parse_query
    from experiments.study.files import DiskError, as_disk_error
    from experiments.study.folders import make_folder
    from experiments.study.result import DirectoryError

    if not words or (len(words) == 1 and words[0] in KINDS):
        list_names(out)
        return
    try:
        subjects = parse_query(words, Sizes(head_dim, heads, trained, length))
        for subject in subjects:
            describe(subject, out, all_pairs=every)
        from experiments.show.chart import chart

        drawn = chart(subjects)
        if drawn is not None:
            plot = plot or Path("runs/show") / f"{subjects[0].stem}.svg"
            make_folder(plot.parent)
            with as_disk_error(plot):
                drawn.save(str(plot))
            print(plot)
    except (ConfigError, DirectoryError, ValueError, OverflowError) as error:
        fail(str(error), BAD_INPUT)
    except DiskError as error:
        fail(str(error), DISK)


@app.command()
def report(
    directories: CompleteRuns = None,
    every: Annotated[
        bool, typer.Option("--all", help="All stored results of the study, and its claims.")
    ] = False,
    output: ReportOutput = None,
):
    """Draw figures and report again from stored results. Several runs of one task are compared."""
    _require_docstrings()
    if bool(directories) == every:
        fail("report: give either directories of runs or --all", BAD_INPUT)
    from experiments.analysis import compare, stored, tables
    from experiments.analysis import report as reports
    from experiments.analysis.table import Results
    from experiments.study.files import DiskError
    from experiments.study.result import DirectoryError

    try:
        if every:
            for name in stored.names():
                print(reports.write(stored.stored(name), stored.STUDY / name))
            print(stored.write_claims())
            return
        runs = {directory: Results.read(directory) for directory in directories or []}
        if len(runs) == 1:
            ((directory, results),) = runs.items()
            path = reports.write(results, directory, output)
        else:
            unique = len({directory.name for directory in runs}) == len(runs)
            named = {d.name if unique else str(d): results for d, results in runs.items()}
            results = compare.merged(named)
            path = reports.write_comparison(results, named, output or Path("runs/comparison"))
        tables.show(results, out)
        print(path)
    except (DirectoryError, compare.Incomparable) as error:
        fail(str(error), BAD_INPUT)
    except DiskError as error:
        fail(str(error), DISK)


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Configs, such as quick; by default all."),
    ] = None,
    directory: RunsOutput = Path("runs/study"),
    seeds: Annotated[
        str, typer.Option(help="Other seeds than the stored ones, such as 5,6,7,8,9.")
    ] = "",
    store: Annotated[
        bool, typer.Option("--store", help="Replace the stored results; then: report --all.")
    ] = False,
):
    """Train the stored study again, and print where the new results do not match."""
    _require_docstrings()
    stop = _stop_event()
    from experiments.analysis import stored
    from experiments.analysis.short_run import short_run
    from experiments.study.files import DiskError
    from experiments.study.result import DirectoryError

    chosen, known = names or stored.names(), stored.names()
    for name in chosen:
        if name not in known:
            fail(f"{name!r}: no stored result; expected one of {', '.join(known)}", BAD_INPUT)
    old = [str(directory / name) for name in chosen if os.path.exists(directory / name)]
    if store and (seeds or old):
        remedy = "leave out --seeds" if seeds else f"{old[0]} is there, give another --out"
        fail(f"--store: stores new runs with the seeds of the configs: {remedy}", BAD_INPUT)
    overrides = [f"seeds=[{seeds}]"] if seeds else []
    experiments = {name: _load(stored.CONFIGS / f"{name}.toml", overrides) for name in chosen}
    differ = False
    for name, experiment in experiments.items():
        config = f"configs/{name}.toml"
        command = shlex.join(["python", "-m", "experiments", "run", config, *overrides])
        new = _run(experiment, directory / name, command, stop)
        try:
            found = list(stored.disagreements(stored.stored(name), new))
            if store:
                numbers = short_run(stored.CONFIGS / f"{name}.toml")
                stored.store(name, directory / name, numbers)
        except DirectoryError as error:
            fail(str(error), BAD_INPUT)
        except DiskError as error:
            fail(str(error), DISK)
        differ |= bool(found)
        for line in found or ["matches the stored result"]:
            out.print(f"{name}: {line}", markup=False, highlight=False, soft_wrap=True)
    if differ and not store:
        raise typer.Exit(DIFFERENT)


def _load(config: Path, overrides: list[str] | None):
    from experiments.config.load import ConfigError, load

    try:
        return load(config, overrides or [])
    except ConfigError as error:
        fail(str(error), BAD_INPUT)


def main(words: Sequence[str] | None = None):
    """Does the command of these words, by default those that Python was started with."""
    stdout = streams.protect()
    try:
        Path.cwd()
    except FileNotFoundError:
        warn("The working directory does not exist any more: change to another one.")
        sys.exit(DISK)
    try:
        app(words, prog_name="python -m experiments")
    except SystemExit as end:
        if sys.stdout:
            sys.stdout.flush()
        if stdout and (lost := stdout.lost()) and not end.code:
            warn(f"standard output: {lost}. The command itself is done.")
            sys.exit(DISK)
        raise


if __name__ == "__main__":
    main()
