"""From the words of `show` to encodings: one by its config name, or those of a config.json."""

import dataclasses
import json
import os
import re
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jrope
from experiments.config.load import override
from experiments.config.section import LARGEST, ConfigError, unknown
from experiments.config.values import TRAINED_LENGTHS, Context, build, class_of
from experiments.text import plain, shown_path
from jrope.huggingface import head_dims, layer_types

KINDS = ("encoding", "scaling")
TRAINED, FACTOR, HEAD_DIM = 4096, 4.0, 64  # where nothing else is said


@dataclass(frozen=True)
class Sizes:
    """What the options of `show` say; None where they say nothing."""

    head_dim: int | None = None
    heads: int = 8
    trained: int | None = None
    length: int | None = None


@dataclass(frozen=True)
class Subject:
    """An encoding to show, and the sizes to show it with.

    Attributes:
      name: of the encoding, or of the file.
      head_dim: features of a head, or of the part of it that has a spectrum.
      softmax_dim: what the softmax scale is made from; None where it is not known.
      trained: the trained length.
      length: of the sequence.
      examples: fields without a default, whose values are only examples.
      source: where a published model says its trained length.
    """

    name: str
    encoding: jrope.Encoding
    head_dim: int
    softmax_dim: int | None
    heads: int
    trained: int
    length: int
    examples: tuple[str, ...] = ()
    source: str = ""

    @property
    def stem(self) -> str:
        """A name for a file."""
        name = self.name.partition(",")[0].removesuffix(".json")
        return re.sub(r"[^\w-]+", "-", name)

    @property
    def sizes(self) -> dict[str, int]:
        """The arguments of `Encoding.init`."""
        heads = {"num_heads": self.heads, "head_dim": self.head_dim}
        return {"features": self.heads * self.head_dim, **heads, "num_layers": 1}


def parse_query(words: Sequence[str], sizes: Sizes) -> list[Subject]:
    """One encoding, or one for each layer type of a published model that has a different one.

    Args:
      words: `[encoding|scaling] NAME|FILE [field=value...]`.

    Raises:
      ConfigError: for every mistake in the words, the file or a field.
    """
    name, *overrides = words[1:] if len(words) > 1 and words[0] in KINDS else words
    names = {**jrope.encoding_types(), **jrope.scaling_types()}
    if name in names or ":" in name:
        return [_named(name, overrides, sizes)]
    path = Path(name)
    if not (path.suffix or os.path.exists(path)):
        raise ConfigError(unknown(name, names, "encoding or scaling"))
    if path.suffix == ".toml":
        remedy = "validate checks it, and show takes a published model's config.json"
        raise ConfigError(f"{shown_path(name)}: an experiment's config; {remedy}")
    if overrides:
        remedy = "set fields of an encoding that you name; a file is shown as it is"
        raise ConfigError(f"{overrides[0]!r}: {remedy}")
    return _published(path, sizes)


def _named(name: str, overrides: Sequence[str], sizes: Sizes) -> Subject:
    trained, head_dim = sizes.trained or TRAINED, sizes.head_dim or HEAD_DIM
    kind = "scaling" if name in jrope.scaling_types() else "encoding"
    cls = class_of(kind, {"type": name})
    examples = _examples(cls, trained, head_dim)
    table = {"type": name, **examples}
    data: dict[str, Any] = table
    if kind == "scaling":
        data = {"type": "rope", "scaling": table}
        # a field of the scaling, or else of the RoPE that it scales
        own = {field.name for field in dataclasses.fields(cls)}
        rope = {field.name for field in dataclasses.fields(jrope.Rope)} - own
        named = {word: re.split(r"[.=]", word)[0].strip() for word in overrides}
        overrides = [word if named[word] in rope else f"scaling.{word}" for word in overrides]
    for word in overrides:
        override(data, word)

    scaling = data.get("scaling")
    factor: Any = scaling.get("factor") if isinstance(scaling, dict) else None
    is_number = isinstance(factor, int | float) and 1 < factor <= LARGEST
    length = sizes.length or round(trained * (factor if is_number else FACTOR))
    if length > LARGEST:
        remedy = "give --length, or a smaller --trained"
        raise ConfigError(f"length: {length} is more than {LARGEST}: {remedy}")
    encoding = build("encoding", data, Context(trained, length))
    trained = getattr(getattr(encoding, "scaling", None), "original_length", trained)
    kept = tuple(key for key, value in examples.items() if value == table.get(key) != "match")
    return Subject(name, encoding, head_dim, head_dim, sizes.heads, trained, length, kept)


def _examples(cls: type, trained: int, head_dim: int) -> dict[str, Any]:
    """Values for the fields without a default, made from their names and types.

    A factor over the trained length is that of the sequence.
    """
    hints, pairs = typing.get_type_hints(cls), max(head_dim // 2, 1)
    rising = [round(FACTOR ** (i / max(pairs - 1, 1)), 3) for i in range(pairs)]
    examples = {
        float: 0.5,
        int: trained,
        tuple[float, ...]: rising,
        tuple[jrope.Encoding, ...]: [{"type": "rope"}, {"type": "nope"}],
    }
    names = {field.name for field in dataclasses.fields(cls)}
    values: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        name, hint = field.name, hints[field.name]
        has_default = field.default is not dataclasses.MISSING
        if name == "factor" and (not has_default or names.intersection(TRAINED_LENGTHS)):
            values[name] = "match"
        elif not has_default and name not in TRAINED_LENGTHS and hint in examples:
            is_short = name.startswith("short") and hint == tuple[float, ...]
            values[name] = [1.0] * pairs if is_short else examples[hint]
    return values


def _published(path: Path, sizes: Sizes) -> list[Subject]:
    config = _read(path)
    try:
        found: dict[tuple, list[str]] = {}
        for kind in layer_types(config):
            key = jrope.from_huggingface(config, kind), *head_dims(config, kind)
            found.setdefault(key, []).extend([kind] if kind else [])
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{shown_path(path)}: {str(error).removeprefix('from_huggingface: ')}"
        ) from None
    longest, where = _longest({**config, **(config.get("text_config") or {})})
    if type(longest) is not int or not 0 < longest <= LARGEST:
        raise ConfigError(f"{shown_path(path)}: {where}={longest!r} must be a number of positions")
    subjects = []
    for (encoding, head_dim, softmax_dim), kinds in found.items():
        head_dim = sizes.head_dim or head_dim
        if head_dim is None:
            raise ConfigError(
                f"{shown_path(path)}: does not say the size of a head: give --head-dim"
            )
        scaling = _scaling(encoding)
        original = getattr(scaling, "original_length", None)
        trained = sizes.trained or original or longest
        reached = round(trained * getattr(scaling, "factor", 1.0)) if original else trained
        length = sizes.length or max(longest, reached)
        of_layers = f", {' and '.join(kinds)} layers" if kinds and len(found) > 1 else ""
        source = "" if sizes.trained else "that of its scaling" if original else where
        lengths = {"trained": trained, "length": length, "source": source}
        name = f"{plain(path.name)}{of_layers}"
        subjects.append(Subject(name, encoding, head_dim, softmax_dim, sizes.heads, **lengths))
    return subjects


def _scaling(encoding: jrope.Encoding) -> Any:
    """The scaling of an encoding, or of the first member that has one."""
    members = getattr(encoding, "encodings", ())
    own = getattr(encoding, "scaling", None)
    return own or next(filter(None, map(_scaling, members)), None)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{shown_path(path)}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{shown_path(path)}: not readable as JSON: {error}") from None


def _longest(config: dict) -> tuple[Any, str]:
    """The longest sequence that a published model takes, and the key that says it."""
    for key in ("max_position_embeddings", "n_positions"):
        if config.get(key) is not None:
            return config[key], key
    return TRAINED, "assumed, since the config does not say it"
