"""Each example runs, and prints what its docstring says."""

import importlib.util
import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def run(capsys):
    """Runs an example's `main`; returns what it prints."""

    def run_example(name, *arguments):
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.main(*arguments)
        return capsys.readouterr().out

    return run_example


def numbers(text):
    return [float(number) for number in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", text)]


def test_examples_are_short():
    paths = sorted(EXAMPLES.glob("*.py"))
    assert len(paths) == 6
    assert all(len(path.read_text().splitlines()) <= 60 for path in paths)


def test_rope_in_equinox_depends_on_distances_and_compiles_once(run):
    lines = run("rope_in_equinox").splitlines()
    assert numbers(lines[0])[0] < 1e-5
    assert all(numbers(line)[0] > 1e-3 for line in lines[1:4])
    assert lines[4] == "compiled programs: 1"


def test_rope_in_linen_learns_to_look_back(run):
    with_rope, without = numbers(run("rope_in_linen"))
    assert with_rope < 0.05
    assert without > 1


def test_a_custom_encoding_learns_the_rhythm(run):
    loss, table = run("custom_encoding").split("; heads by distance mod 4:")
    assert numbers(loss)[0] < 0.05
    for row in table.strip().splitlines():
        values = numbers(row)
        assert values.index(max(values)) == 3


def test_extending_a_context_trades_lengths(run):
    rows = [numbers(line) for line in run("extend_context").splitlines()]
    (_, (short, _, plain), (_, _, ntk), (_, _, linear)) = rows
    assert short < 0.05
    assert ntk < plain < linear


def test_decoding_continues_padded_prompts_as_full_passes_do(run):
    lines = run("decode").splitlines()
    assert lines[1:3] == ["the same without padding: True", "the same by full passes: True"]
    assert numbers(lines[3])[0] > 1


def test_a_spectrum_is_plotted(run, tmp_path):
    lines = run("plot_spectrum", str(tmp_path / "spectrum.svg")).splitlines()
    assert lines[0] == "as trained: 18 of 64 pairs have a wavelength above 4096"
    assert lines[-1] == str(tmp_path / "spectrum.svg")
    svg = (tmp_path / "spectrum.svg").read_text()
    assert all(words in svg for words in ("positions per turn", "as trained", "yarn"))
