"""The docs: Python blocks run, configs and commands are valid, and no name or key is left out."""

import importlib
import inspect
import pkgutil
import re
import shlex
import tomllib
from pathlib import Path

import pytest

import jrope
from docs import reference
from experiments.config import schema
from experiments.config.load import load, validate
from experiments.config.section import field_types
from experiments.tasks import POSITIONS, TASKS

ROOT = Path(__file__).parent.parent
PAGES = {
    str(page.relative_to(ROOT)): page.read_text() for page in sorted((ROOT / "docs").rglob("*.md"))
}
CONFIG = PAGES["docs/config.md"]


def blocks(text, language):
    """The code blocks of a page, after blank lines: an error has the line number of the page."""
    for match in re.finditer(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        yield "\n" * text[: match.start(1)].count("\n") + match[1]


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if "```python\n" in text])
def test_python_blocks_run_in_order(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    namespace = {}
    for block in blocks(PAGES[page], "python"):
        exec(compile(block, page, "exec"), namespace)


def test_configs_are_valid():
    """The first block is a whole config; the others take the place of its sections."""
    whole, *others = map(tomllib.loads, blocks(CONFIG, "toml"))
    assert len(others) == 5
    for other in ({}, *others):
        validate(whole | other)


@pytest.mark.parametrize(
    "line", re.findall(r"^python -m experiments (?:run|validate) .*", CONFIG, re.MULTILINE)
)
def test_commands_are_valid(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my.toml").write_text(next(blocks(CONFIG, "toml")))
    _, _, _, _, path, *overrides = shlex.split(line)
    load(Path(path), overrides)


def test_every_key_of_a_config_is_told():
    sections = schema.TrainedEncoding, schema.ExtendedEncoding, schema.Transformer
    names = {*TASKS, *POSITIONS, "type"}
    for section in (schema.Experiment, *schema.SECTIONS, *sections):
        hints = field_types(section)
        names |= {name for name in hints if hints[name] != schema.Inline}
    for cls in (*TASKS.values(), *POSITIONS.values()):
        names |= field_types(cls).keys()
    names -= {"swept", *field_types(schema.Swept)}  # which only jrope itself writes
    assert not {
        name for name in names if not re.search(rf"`{name}`|`\[{name}[].]|\b{name} = ", CONFIG)
    }


def listed(directive):
    """The arguments of a directive in the pages of the reference."""
    text = "\n".join(text for page, text in PAGES.items() if page.startswith("docs/api/"))
    return " ".join(re.findall(rf"^```{{{directive}}} (.*)$", text, re.MULTILINE)).split()


def test_the_reference_has_every_public_name_once():
    modules = [importlib.import_module(name) for name in listed("exports")]
    for package in map(importlib.import_module, listed("files")):
        modules += [
            importlib.import_module(f"{package.__name__}.{found.name}")
            for found in pkgutil.iter_modules(package.__path__)
        ]
    names = [name for module in modules for name in reference.exported(module)]
    public = {
        f"jrope.{name}"
        for name, value in vars(jrope).items()
        if inspect.isfunction(value) or inspect.isclass(value)
        if value.__module__.startswith("jrope.")
    }
    assert len(names) == len(set(names))
    assert public <= set(names)


def test_the_reference_has_a_table_of_each_kind():
    assert sorted(listed("listed")) == sorted(reference.TYPES)
    for kind, types in reference.TYPES.items():
        rows = reference.table(kind).splitlines()[2:]
        assert len(rows) == len(types())
        assert all(len(re.split(r"(?<!\\)\|", row)) == 6 for row in rows)


def test_every_map_of_an_encoding_is_told():
    maps = {name for name in vars(jrope.Encoding) if not name.startswith("_")}
    maps -= {"name", "arrays", "at", "limit"}  # fields of the class, and former names
    page = PAGES["docs/encoding.md"]
    assert not {name for name in maps if not re.search(rf"^\|.*`{name}`", page, re.MULTILINE)}
