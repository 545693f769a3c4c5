"""The values of a published config: each is checked where it is read, and refused by its name."""

import math
from collections.abc import Callable
from typing import Any, NoReturn

BY_HAND = "correct the config, or build the encoding by hand"


class Keys:
    """One dict of a config.json: the model's, or the rope parameters of a layer.

    A key that is null is missing. A method returns None or the default for a missing key, and
    raises ValueError with the key and its value where the value is not allowed.

    Attributes:
      model_type: the model's.
      given: the dict.
      unread: the keys that no method has read yet.
    """

    def __init__(self, model_type: str, given: dict):
        self.model_type, self.given = model_type, given
        self.unread = [key for key, value in given.items() if value is not None]

    def fail(self, what: str, remedy: str = BY_HAND) -> NoReturn:
        raise ValueError(f"from_huggingface: {self.model_type}: {what}: {remedy}")

    def refuse(self, key: str, value: Any, why: str, remedy: str = BY_HAND) -> NoReturn:
        self.fail(f"{key}={value!r} {why}", remedy)

    def refuse_unread(self):
        if self.unread:
            unread = ", ".join(f"{key}={self.given[key]!r}" for key in self.unread)
            remedy = "remove what the model does not use, or build the encoding by hand"
            self.fail(f"{unread} is not a known rope key here", remedy)

    def is_null(self, key: str) -> bool:
        """Whether the key is there and null, which is not a missing key for a few keys."""
        return key in self.given and self.given[key] is None

    def value(self, key: str) -> Any:
        if key in self.unread:
            self.unread.remove(key)
        return self.given.get(key)

    def number(self, key: str, default: Any = None) -> Any:
        value = self._number_that(key, lambda x: True, "must be a finite number")
        return default if value is None else value

    def positive(self, key: str) -> Any:
        return self._number_that(key, lambda x: x > 0, "must be a positive number")

    def fraction(self, key: str) -> Any:
        return self._number_that(key, lambda x: 0 < x <= 1, "must be above 0 and at most 1")

    def length(self, key: str) -> Any:
        return self._number_that(key, lambda x: x >= 1, "must be at least 1")

    def size(self, key: str) -> Any:
        return self.count(key, "features or heads")

    def count(self, key: str, what: str, least: int = 0) -> Any:
        why = f"must be a number of {what}" + f", at least {least}" * (least > 0)
        return self._number_that(key, lambda x: isinstance(x, int) and x >= least, why)

    def required(self, key: str) -> Any:
        if self.given.get(key) is None:
            what = f"{key} is missing from the rope parameters {self.given}"
            self.fail(what, f"add {key}")
        return self.number(key)

    def num_layers(self, key: str) -> Any:
        return self.count(key, "layers", least=1)

    def index(self, key: str) -> Any:
        return self.count(key, "layers")

    def switch(self, key: str) -> bool | None:
        value = self.value(key)
        if not isinstance(value, bool | None):
            self.refuse(key, value, "must be true or false")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.switch(key)
        return default if value is None else value

    def words(self, key: str) -> tuple[str, ...] | None:
        value = self.value(key)
        is_list = isinstance(value, list | tuple) and all(isinstance(x, str) for x in value)
        if value is not None and not is_list:
            self.refuse(key, value, "must be a list of words, one for each layer")
        return None if value is None else tuple(value)

    def switches(self, key: str) -> tuple[bool, ...] | None:
        """A list of 0 and 1, or of false and true; None also for an empty one."""
        value = self.value(key)
        is_list = isinstance(value, list | tuple) and all(map(_is_switch, value))
        if value is not None and not is_list:
            self.refuse(key, value, "must be a list of 0 and 1, one for each layer")
        return tuple(map(bool, value)) if value else None

    def numbers(self, key: str) -> tuple:
        """The numbers of a list that must be there."""
        value = self.value(key)
        if value is None:
            self.refuse(key, None, "must be a list of numbers", f"add {key}")
        is_list = isinstance(value, list | tuple) and value
        if not is_list or not all(map(_is_number, value)):
            self.refuse(key, value, "must be a list of numbers")
        return tuple(value)

    def dictionary(self, key: str) -> dict:
        value = self.value(key)
        if not isinstance(value, dict | None):
            self.refuse(key, value, "must be a dict")
        return value or {}

    def either(self, read: Callable[[str], Any], *keys: str) -> Any:
        """The value of several keys with one meaning. Those that are given must agree."""
        found = {key: value for key in keys if (value := read(key)) is not None}
        if len(set(found.values())) > 1:
            both = " and ".join(f"{key}={value!r}" for key, value in found.items())
            self.fail(f"{both} are not the same")
        return next(iter(found.values()), None)

    def _number_that(self, key: str, is_allowed: Callable[[Any], bool], why: str) -> Any:
        value = self.value(key)
        if value is not None and not (_is_number(value) and is_allowed(value)):
            self.refuse(key, value, why)
        return value


def _is_switch(value: Any) -> bool:
    return isinstance(value, int) and value in (0, 1)


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)
