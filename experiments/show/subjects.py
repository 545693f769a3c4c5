"""What `show` was asked for: an encoding or scaling by the name that configs use, or those of a published config.json."""

import dataclasses
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jrope
from experiments.config.experiment import ENCODINGS, SCALINGS
from experiments.config.load import ConfigError, encoding_section, unknown
from experiments.config.sections import LARGEST, Context
from jrope.huggingface import head_dims, layer_types

NAMES = {**ENCODINGS, "chain": jrope.Chain, **SCALINGS}
KINDS = ("encoding", "scaling")
TRAINED, LONGER = 4096, 4.0  # the trained length, and how many times as long a sequence, where nothing else is said
HEAD_DIM = 64


@dataclass(frozen=True)
class Sizes:
    """What an encoding is looked at with; None for what is not said."""

    head_dim: int | None = None
    heads: int = 8
    trained: int | None = None
    length: int | None = None


@dataclass(frozen=True)
class Subject:
    """An encoding, and what it is looked at with.

    Attributes:
      name: what it was asked for by.
      encoding: its value.
      head_dim: of a head, or of the part of it that has a spectrum of its own.
      softmax_dim: what the softmax scale is made from; None where it is not known.
      heads: how many.
      trained: the trained length.
      length: that of the sequence at hand.
      examples: the fields that have no default, and whose values here are no more than examples.
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
        return re.sub(r"[^\w-]+", "-", self.name.partition(",")[0].removesuffix(".json"))


def subjects(words: Sequence[str], sizes: Sizes) -> list[Subject]:
    """One subject, or one for each layer type of a published model that has a different encoding.

    Args:
      words: `[encoding|scaling] NAME|FILE [field=value...]`.

    Raises:
      ConfigError: what is wrong with the words, the file or a field.
    """
    name, *overrides = words[1:] if len(words) > 1 and words[0] in KINDS else words
    if name in NAMES or ":" in name:
        return [_named(name, overrides, sizes)]
    path = Path(name)
    if not (path.suffix or path.exists()):
        raise ConfigError(unknown(name, NAMES, "encoding or scaling"))
    if path.suffix == ".toml":
        raise ConfigError(f"{name}: an experiment's config, which validate checks; show takes a published model's config.json")
    if overrides:
        raise ConfigError(f"{overrides[0]!r}: fields are set of an encoding that is named; {name} stands as it is")
    return _published(path, sizes)


def _named(name: str, overrides: Sequence[str], sizes: Sizes) -> Subject:
    trained, head_dim = sizes.trained or TRAINED, sizes.head_dim or HEAD_DIM
    examples = _examples(name, trained, head_dim)
    if name in SCALINGS:
        own = {field.name for field in dataclasses.fields(SCALINGS[name])}
        matched = {"factor": "match"} if "factor" in own and name != "proportional" else {}
        data: dict[str, Any] = {"type": "rope", "scaling": {"type": name, **matched, **examples}}
        # fields go by their own names: those of the scaling, and else those of the RoPE that it scales
        rope = {field.name for field in dataclasses.fields(jrope.Rope)} - own
        overrides = [o if re.split(r"[.=]", o)[0].strip() in rope else f"scaling.{o}" for o in overrides]
    else:
        data = {"type": name, **examples}
    section = encoding_section(data, overrides)
    factor = getattr(getattr(section, "scaling", None), "factor", None)
    length = sizes.length or round(trained * (factor if isinstance(factor, int | float) and factor > 1 else LONGER))
    if length > LARGEST:
        raise ConfigError(f"length: {length} is more than {LARGEST}: give --length, or a smaller --trained")
    encoding = section.value(Context(trained, length))
    trained = getattr(getattr(encoding, "scaling", None), "original_length", trained)
    kept = {key: data.get("scaling", data).get(key) for key in examples}
    told = tuple(key for key, value in examples.items() if kept[key] == value)
    return Subject(name, encoding, head_dim, head_dim, sizes.heads, trained, length, told)


def _examples(name: str, trained: int, head_dim: int) -> dict[str, Any]:
    """Something for the fields that have no default."""
    pairs = max(head_dim // 2, 1)
    longer = [round(LONGER ** (i / max(pairs - 1, 1)), 3) for i in range(pairs)]
    return {
        "window": {"size": trained},
        "proportional": {"rotary_fraction": 0.5},
        "longrope": {"short_factor": [1.0] * pairs, "long_factor": longer},
    }.get(name, {})


def _published(path: Path, sizes: Sizes) -> list[Subject]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not readable as JSON: {error}") from None
    try:
        found: dict[tuple, list[str | None]] = {}
        for kind in layer_types(config):
            encoding = jrope.from_huggingface(config, kind)
            found.setdefault((encoding, *head_dims(config, kind)), []).append(kind)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{path}: {str(error).removeprefix('from_huggingface: ')}") from None
    text = {**config, **(config.get("text_config") or {})}
    longest, where = _longest(text)
    if isinstance(longest, bool) or not isinstance(longest, int) or not 0 < longest <= LARGEST:
        raise ConfigError(f"{path}: {where}={longest!r} must be a number of positions")
    made = []
    for (encoding, head_dim, softmax_dim), kinds in found.items():
        head_dim = sizes.head_dim or head_dim
        if head_dim is None:
            raise ConfigError(f"{path}: does not tell the size of a head: give --head-dim")
        scaling = getattr(encoding, "scaling", None)
        original = getattr(scaling, "original_length", None)
        trained = sizes.trained or original or longest
        reach = round(trained * getattr(scaling, "factor", 1.0)) if original else trained
        source = "" if sizes.trained else "that of its scaling" if original else where
        told = [kind for kind in kinds if kind]
        name = f"{path.name}, {' and '.join(told)} layers" if told and len(found) > 1 else path.name
        length = sizes.length or max(longest, reach)
        made.append(Subject(name, encoding, head_dim, softmax_dim, sizes.heads, trained, length, source=source))
    return made


def _longest(config: dict) -> tuple[Any, str]:
    """The longest sequence that a published model takes, and where that is said."""
    for key in ("max_position_embeddings", "n_positions"):
        if config.get(key) is not None:
            return config[key], key
    return TRAINED, "assumed, since the config says nothing of it"
