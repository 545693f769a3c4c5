"""Names and values from a file, as text that is safe in a terminal and stays on its line."""

from os import PathLike
from typing import Any

LONGEST = 200


def plain(text: str) -> str:
    """The text with its line breaks, control characters and lone surrogates written as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shown_path(path: str | PathLike[str]) -> str:
    """A path as `plain` text, without its middle where it is long."""
    text = plain(str(path))
    half = LONGEST // 2
    return text if len(text) <= LONGEST else f"{text[:half]}...{text[-half:]}"


def shown(value: Any) -> str:
    """A value as Python writes it, cut short where it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, or endless tables
        return f"{type(value).__name__} too large to show"
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."
