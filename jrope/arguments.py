"""What arguments may be, checked before XLA finds it: types from annotations, arrays from one line.

    @arguments.checked(q="floating [..., T, H]", k="floating [..., S, H]", positions="ids [..., T]")
    def scores(q, k, positions, *, scale: float | None = None, causal: bool = True): ...

A letter is one size in all arrays of a call, a number is itself, and what `...` stands for has to
broadcast. A parameter whose default is None may be None. The function itself checks what is "any".
Annotations say the rest: `int` is known when a program is made, `float` may be traced. Scalars of
JAX and NumPy become Python's.
"""

import dataclasses
import inspect
import re
import reprlib
import types
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.core import Tracer

from jrope import checks

Function = TypeVar("Function", bound=Callable)
# the dtypes of each kind of array, and what to call it
_KINDS: dict[str, Any] = {
    "floating": (jnp.floating, "floating"),
    "real": ((jnp.floating, jnp.integer), "real numbers"),
    "integers": (jnp.integer, "integers"),
    "bool": (jnp.bool_, "bool"),
    "mask": ((jnp.bool_, jnp.integer, jnp.floating), "bool, or real numbers"),
    "key": ((jax.dtypes.prng_key, jnp.uint32), "a key of jax.random"),
    "increments": (jnp.uint32, "uint32 phase increments"),
    "array": (jnp.generic, "an array"),
}


def checked(**arrays: str) -> Callable[[Function], Function]:
    """A decorator: the function's arguments are checked, and its scalars are Python's numbers.

    Raises (from a call):
      TypeError: if an argument has the wrong type.
      ValueError: if it has the wrong shape, or is not among the values of a `Literal`.
    """
    parsed = {name: _parsed(spec) for name, spec in arrays.items()}

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        owner = re.sub(r"\.__\w+__$", "", function.__qualname__)
        hints = {n: p.annotation for n, p in signature.parameters.items() if n not in arrays}
        optional = {n for n, p in signature.parameters.items() if p.default is None}

        @wraps(function)
        def call(*args, **options):
            bound = signature.bind(*args, **options)
            given, sizes = bound.arguments, _Sizes(owner)
            for name, value in given.items():
                if name in hints:
                    given[name] = conform(owner, name, value, hints[name])
                elif arrays[name] != "any" and (value is not None or name not in optional):
                    kind, dims = parsed[name]
                    given[name] = _array(owner, name, value, kind, dims)
                    if dims is not None:
                        sizes.add(name, np.shape(given[name]), dims)
            return function(*bound.args, **bound.kwargs)

        return call  # type: ignore[return-value]

    return decorate


def check_fields(value: Any):
    """Checks the fields of a frozen dataclass by their annotations; for its `__post_init__`."""
    owner = type(value).__name__
    for field in dataclasses.fields(value):
        given = conform(owner, field.name, getattr(value, field.name), field.type)
        object.__setattr__(value, field.name, given)


def conform(owner: str, name: str, value: Any, hint: Any) -> Any:
    """A value that is what the annotation says, with numbers as Python's and lists as tuples.

    Raises:
      TypeError: if it is something else.
      ValueError: if it is not among the values of a `Literal`.
    """
    if hint in (inspect.Parameter.empty, Any):
        return value
    value = checks.number(value)
    if not _is(value, hint):
        error = ValueError if get_origin(hint) is Literal else TypeError
        static = (
            ": it is part of the program, so give a Python number or make it static"
            if _is_traced(value)
            else ""
        )
        raise error(f"{owner}: {name} must be {_noun(hint)}, got {_given(value)}{static}")
    return tuple(value) if isinstance(value, list) else value


def _is(value: Any, hint: Any) -> bool:
    origin, inner, is_symbolic = get_origin(hint), get_args(hint), export.is_symbolic_dim(value)
    if isinstance(hint, TypeVar):
        return _is(value, hint.__bound__)
    if origin in (Union, types.UnionType):
        return any(_is(value, one) for one in inner)
    if origin is Literal:
        return isinstance(value, str) and value in inner
    if origin in (tuple, Sequence):
        return isinstance(value, tuple | list) and all(_is(item, inner[0]) for item in value)
    if origin is Callable:
        return callable(value)
    if origin is not None:
        return isinstance(value, origin)
    if hint is int:
        is_index = hasattr(value, "__index__") or is_symbolic
        return is_index and not isinstance(value, bool) and not _is_traced(value)
    if hint is float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return (
            is_number
            or is_symbolic
            or (_has_dtype(value, _KINDS["real"][0]) and np.shape(value) == ())
        )
    return isinstance(value, hint)


def _noun(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if isinstance(hint, TypeVar):
        return _noun(hint.__bound__)
    if origin in (Union, types.UnionType):
        return " or ".join(map(_noun, inner))
    if origin is Literal:
        return f"one of {inner}"
    if origin in (tuple, Sequence):
        return f"a tuple, each {_noun(inner[0])}"
    if origin is Callable:
        return "a function"
    nouns = {int: "an integer", float: "a number", bool: "True or False", types.NoneType: "None"}
    return nouns.get(hint) or f"of type {(origin or hint).__name__}"


def _has_dtype(value: Any, kinds) -> bool:
    if not isinstance(value, jax.Array | np.ndarray | np.generic):
        return False
    kinds = kinds if isinstance(kinds, tuple) else (kinds,)
    return any(jnp.issubdtype(value.dtype, kind) for kind in kinds)


def _parsed(spec: str) -> tuple[str, tuple[str, ...] | None]:
    """The kind and the sizes of "kind [..., T, H]"; None for any sizes."""
    kind, _, shape = spec.partition(" ")
    dims = tuple(dim.strip() for dim in shape[1:-1].split(",") if dim)
    return kind, dims if shape else None


def _array(owner: str, name: str, value: Any, kind: str, dims) -> Any:
    if kind == "ids":
        array = checks.position_ids(name, value)
    else:
        dtypes, noun = _KINDS[kind]
        is_number = isinstance(value, list | tuple | int | float) and not isinstance(value, bool)
        try:
            array = np.asarray(value) if is_number else value
        except ValueError:  # a ragged list
            array = value
        if not _has_dtype(array, jnp.generic):
            shape = f" [{', '.join(dims)}]" if dims else ""
            raise TypeError(f"{owner}: {name} must be an array{shape}, got {_given(value)}")
        if not _has_dtype(array, dtypes):
            raise TypeError(f"{owner}: {name} must be {noun}, got {_given(value)}")
    if dims is not None and not _fits(np.ndim(array), dims):
        wanted = f"[{', '.join(dims)}]"
        raise ValueError(f"{owner}: {name} must be {wanted}, got shape {np.shape(array)}")
    return array


def _fits(rank: int, dims) -> bool:
    return rank >= len(dims) - 1 if dims[:1] == ("...",) else rank == len(dims)


class _Sizes:
    """The size that each letter has, from the first array that has it."""

    def __init__(self, owner: str):
        self.owner, self.known, self.leading = owner, {}, {}

    def add(self, name: str, shape, dims):
        if dims[:1] == ("...",):
            dims = dims[1:]
            self.leading[name] = shape, shape[: len(shape) - len(dims)]
            for first, (other, leading) in self.leading.items():
                pairs = zip(leading[::-1], self.leading[name][1][::-1], strict=False)
                if any(a != b and 1 not in (a, b) for a, b in pairs):
                    self._refuse(first, other, name, shape, "the axes in front")
        for dim, size in zip(dims, shape[len(shape) - len(dims) :], strict=True):
            if dim.isdigit():
                if size != int(dim):
                    wanted = f"{dim} rows"
                    raise ValueError(f"{self.owner}: {name} must have {wanted}, got shape {shape}")
                continue
            other, known, where = self.known.setdefault(dim, (name, size, shape))
            if size != known:
                self._refuse(other, where, name, shape, dim)

    def _refuse(self, first, first_shape, second, second_shape, what: str):
        shapes = f"{first_shape} and {second_shape}"
        raise ValueError(f"{self.owner}: {first} and {second} must agree in {what}, got {shapes}")


def _is_traced(value: Any) -> bool:
    return isinstance(value, Tracer)


def _given(value: Any) -> str:
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        traced = "a traced " if _is_traced(value) else ""
        return f"{traced}{value.dtype} of shape {value.shape}"
    return reprlib.repr(value)
