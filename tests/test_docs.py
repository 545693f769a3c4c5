"""What the docs say, run: Python blocks in order, page by page; configs and commands validated; every public name listed."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest

import jrope
from experiments.load import load, validate

ROOT = Path(__file__).parent.parent
PAGES = {str(page.relative_to(ROOT)): page.read_text() for page in sorted((ROOT / "docs").rglob("*.md"))}
PAGES["CONTRIBUTING.md"] = (ROOT / "CONTRIBUTING.md").read_text()


def blocks(text, language):
    """The code blocks of a page, each with blank lines before it so that tracebacks have the page's line numbers."""
    for match in re.finditer(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        yield "\n" * text[: match.start(1)].count("\n") + match[1]


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if "```python\n" in text])
def test_python_blocks_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for block in blocks(PAGES[page], "python"):
        exec(compile(block, page, "exec"), namespace)


@pytest.mark.parametrize("config", list(blocks(PAGES["docs/config.md"], "toml")), ids=lambda config: config.split("\n")[-2])
def test_configs_are_valid(config):
    """A block is a whole config, or what is to be added to the first or put in the place of its sections."""
    whole = tomllib.loads(next(blocks(PAGES["docs/config.md"], "toml")))
    validate(whole | tomllib.loads(config))


COMMANDS = {
    line for text in PAGES.values() for line in re.findall(r"^python -m experiments (?:run|validate) [^#\n]*", text, re.M)
}


@pytest.mark.parametrize("line", sorted(COMMANDS))
def test_configs_in_commands_are_valid(line):
    _, _, _, _, config, *rest = shlex.split(line)
    if (ROOT / config).exists() or not config.startswith("my"):
        load(ROOT / config, [word for word in rest if "=" in word])


def test_every_public_name_is_in_the_reference_once():
    text = "\n".join(text for page, text in PAGES.items() if page.startswith("docs/api/"))
    listed = re.findall(r"^\.\. auto(?:function|class):: jrope\.(\w+)$", text, re.MULTILINE)
    assert sorted(listed) == sorted(jrope.__all__)
