"""What the docs say, run: Python blocks page by page, configs and commands; and every public name and config key is there."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest

import jrope
from experiments.config import schema
from experiments.config.load import load, validate
from experiments.config.section import field_types
from experiments.tasks import POSITIONS, TASKS

ROOT = Path(__file__).parent.parent
PAGES = {str(page.relative_to(ROOT)): page.read_text() for page in sorted((ROOT / "docs").rglob("*.md"))}
CONFIG = PAGES["docs/config.md"]


def blocks(text, language):
    """The code blocks of a page, each after as many blank lines as give its errors the page's line numbers."""
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


@pytest.mark.parametrize("line", re.findall(r"^python -m experiments (?:run|validate) .*", CONFIG, re.MULTILINE))
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
    assert not {name for name in names if not re.search(rf"`{name}`|`\[{name}[].]|\b{name} = ", CONFIG)}


def test_every_public_name_is_in_the_reference_once():
    text = "\n".join(text for page, text in PAGES.items() if page.startswith("docs/api/"))
    listed = re.findall(r"^\.\. auto(?:function|class):: jrope\.(\w+)$", text, re.MULTILINE)
    assert sorted(listed) == sorted(jrope.__all__)
