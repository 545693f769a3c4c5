"""What the README says, run."""

import re
import shlex
from pathlib import Path

import pytest

from experiments import results, store, tables
from experiments.config.load import load
from experiments.study.published import PUBLISHED

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_python_blocks_run_in_order():
    namespace = {}
    assert len(blocks("python")) == 4
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), namespace)


@pytest.mark.parametrize("line", sorted(set(re.findall(r"python -m experiments (?:run|validate) [^#\n]*", README))))
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
    result = store.read(ROOT / "docs" / "study" / "quick")
    assert result["config"] == load(ROOT / "configs" / "quick.toml").record()
    assert tables.markdown(result) in README
    assert all(results.has_fitted(result, label) for label in results.labels(result))
    svg = (ROOT / "docs" / "study" / "quick" / "figure.svg").read_text()
    assert all(label in svg for label in results.labels(result))


def test_the_number_of_claims():
    assert f"{len(PUBLISHED)}\npublished claims" in README
