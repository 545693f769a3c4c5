"""What the library says of itself: `show` prints the docstrings, so that no formula is written twice."""

import inspect
import re
import sys
from typing import Any, NamedTuple

import jrope

SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Yields):(\n|$)")
REFERENCE = re.compile(r"`jrope\.(\w+)`")
ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")


class Doc(NamedTuple):
    """A docstring in parts.

    Attributes:
      blocks: paragraphs, each on one line, and formulas, whose lines begin with a space.
      fields: what each of the attributes means.
    """

    blocks: list[str]
    fields: dict[str, str]

    @property
    def papers(self) -> list[str]:
        return list(dict.fromkeys(ARXIV.findall(" ".join(self.blocks))))


def parsed(text: str) -> Doc:
    """The parts of a docstring; sections other than its attributes are for those who call the function."""
    blocks, fields, told = [], {}, True
    for block in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if section := SECTION.match(block):
            told = False
            if section[1] == "Attributes":
                fields |= _fields(block)
        elif told and block.startswith(" "):
            blocks.append(block)
        elif told and block:
            # a list stands as it is written
            blocks.append(block if "\n    " in block else " ".join(line.strip() for line in block.splitlines()))
    return Doc(blocks, fields)


def _fields(block: str) -> dict[str, str]:
    """`{"factor": "new length over ..."}`, from the lines of a section; what goes on is indented further."""
    fields: dict[str, str] = {}
    names: list[str] = []
    for line in inspect.cleandoc(block.partition("\n")[2]).splitlines():
        if line.startswith(" "):
            fields |= {name: f"{fields[name]} {line.strip()}" for name in names}
        else:
            told, _, meaning = line.partition(":")
            names = [name.strip() for name in told.split(",")]
            fields |= dict.fromkeys(names, meaning.strip())
    return fields


def about(cls: type) -> Doc:
    """What the docstring of a class says, and that of the function of jrope that it names; and that function's module, where
    neither names a paper."""
    doc = parsed(cls.__doc__ or "")
    for name in REFERENCE.findall(" ".join(doc.blocks)):
        other: Any = getattr(jrope, name, None) or sys.modules.get(f"jrope.{name}")
        own = parsed(getattr(other, "__doc__", None) or "")
        module = sys.modules.get(getattr(other, "__module__", None) or "")
        if not (doc.papers or own.papers) and module is not None:
            own = parsed(module.__doc__ or "")
        doc = Doc([*doc.blocks, *own.blocks], doc.fields)
    return doc


def summary(cls: type) -> str:
    """The first sentence of a class's docstring."""
    first = next(iter(parsed(cls.__doc__ or "").blocks), "")
    return re.split(r"(?<=[^.A-Z])\.(?:\s|$)", REFERENCE.sub("", first).replace(" ()", ""))[0].rstrip(":.")
