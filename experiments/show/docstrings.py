"""What the library says of itself: `show` prints docstrings, so that each formula is written once.

The package docstring_parser removes the indentation of a formula that opens a description.
"""

import inspect
import re
import sys
from typing import Any, NamedTuple

_SECTION = re.compile(r"^(?=(?:Args|Attributes|Returns|Raises|Yields):$)", re.MULTILINE)
_REFERENCE = re.compile(r"`jrope\.(\w+)`")
_ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")


class Doc(NamedTuple):
    """A docstring in parts.

    Attributes:
      blocks: paragraphs, each on one line; formulas and lists as they are written.
      fields: the meaning of each attribute.
    """

    blocks: list[str]
    fields: dict[str, str]

    @property
    def papers(self) -> list[str]:
        """Identifiers on arXiv."""
        return list(dict.fromkeys(_ARXIV.findall(" ".join(self.blocks))))


def parse(text: str | None) -> Doc:
    """The parts of a docstring, without the sections for callers."""
    description, *sections = _SECTION.split(inspect.cleandoc(text or ""))
    blocks = [
        block if re.search("^ {4}", block, re.MULTILINE) else " ".join(block.split())
        for block in re.split(r"\n\s*\n", description.strip("\n"))
        if block
    ]
    fields: dict[str, str] = {}
    for section in sections:
        title, _, entries = section.partition("\n")
        for entry in re.split(r"\n(?! )", inspect.cleandoc(entries)):
            names, _, meaning = entry.partition(":")
            if title == "Attributes:":
                fields |= dict.fromkeys(names.split(", "), " ".join(meaning.split()))
    return Doc(blocks, fields)


def about(cls: type) -> Doc:
    """The docstring of a class, with those of the functions of its file that it names.

    If they name no paper, the docstring of the file follows, if that does.
    """
    module: Any = sys.modules[cls.__module__]
    doc = parse(cls.__doc__)
    for name in _REFERENCE.findall(" ".join(doc.blocks)):
        doc.blocks.extend(parse(getattr(getattr(module, name, None), "__doc__", None)).blocks)
    of_file = parse(module.__doc__)
    return Doc(doc.blocks + of_file.blocks * bool(not doc.papers and of_file.papers), doc.fields)


def summary(cls: type) -> str:
    """The first sentence of a class's docstring."""
    first = next(iter(parse(cls.__doc__).blocks), "")
    text = re.sub(rf" \({_REFERENCE.pattern}\)", "", first)
    return re.split(r"(?<=[^.A-Z])\.(?:\s|$)", text)[0].rstrip(":.")
