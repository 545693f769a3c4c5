"""What the README says, run."""

import re
import shlex
from pathlib import Path

import pytest

from benchmarks import stored
from experiments.analysis import tables
from experiments.analysis.published import PUBLISHED
from experiments.analysis.table import Results
from experiments.config.load import load

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_python_blocks_run_in_order():
    namespace = {}
    assert len(blocks("python")) == 4
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), namespace)


@pytest.mark.parametrize(
    "line", sorted(set(re.findall(r"python -m experiments (?:run|validate) [^#\n]*", README)))
)
def test_configs_in_commands_are_valid(line):
    _, _, _, _, config, *rest = shlex.split(line)
    load(ROOT / config, [word for word in rest if "=" in word])


def test_ci_runs_the_test_command_that_the_readme_gives():
    test_command = blocks("")[0].splitlines()[1].split("#")[0].strip()
    assert test_command in (ROOT / ".ci" / "run").read_text().splitlines()


def test_pictures_are_there():
    for path in re.findall(r"!\[[^]]*\]\(([^)]*)\)", README):
        assert (ROOT / path).is_file()


def test_the_table_and_the_figure_are_those_of_the_committed_result():
    results = Results.read(ROOT / "docs" / "study" / "quick")
    assert results.config == load(ROOT / "configs" / "quick.toml").record()
    assert tables.markdown(results) in README
    unfitted = [entry for entry in results if not entry.has_fitted]
    assert [entry.label for entry in unfitted] == ["sinusoidal"]
    assert round(100 * unfitted[0].cell(1, "exact_match").low, 1) == 98.8
    svg = (ROOT / "docs" / "study" / "quick" / "figure.svg").read_text()
    assert all(label in svg for label in results.labels)


ROTATION = ("rotation", "forward, [8, 2048, 16, 64] float32")
STUDY = ("study", "configs/quick.toml, wall time")
COLD = "jrope, nothing compiled before"
LONG = ("attention", "forward, 8192 tokens")
STEP = ("training", "10 steps of 64 features, 64 sequences of 32 tokens")
SPEED = {
    "rotating q and k [8, 2048, 16, 64]: transformers": (
        *ROTATION,
        "transformers",
        "jrope, half, tables given",
    ),
    "the same, compiled by torch.compile": (
        *ROTATION,
        "transformers, torch.compile",
        "jrope, half, tables given",
    ),
    "attention over 8192 tokens, causal: PyTorch's fused kernel": (
        *LONG,
        "torch, scaled_dot_product_attention",
        "jrope, blocks",
    ),
    "120 tokens of one sequence, 64 features: transformers": (
        "decoding",
        "120 tokens, 64 features, batch 1",
        "transformers, generate",
        "jrope, one jitted loop",
    ),
    "training steps, 64 features: PyTorch with torch.compile": (*STEP, "torch.compile", "jrope"),
    "`configs/quick.toml` from command to report: a script on x-transformers": (
        *STUDY,
        "x-transformers, a script",
        COLD,
    ),
    "the same: a process for each core": (*STUDY, "x-transformers, a process for each core", COLD),
}


@pytest.mark.parametrize("what", SPEED)
def test_speed_is_what_the_benchmark_wrote(what):
    assert f"| {what} | {stored.times(*SPEED[what]):.1f} |" in README.splitlines()


def test_the_number_of_claims():
    assert f"compares {len(PUBLISHED)} published" in README
