"""The values of a published config: each is checked where it is read, and refused by its name."""

import math
from collections.abc import Callable
from typing import Any, NoReturn


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

    def fail(self, what: str) -> NoReturn:
        raise ValueError(f"from_huggingface: {self.model_type}: {what}")

    def refuse(self, key: str, value: Any, why: str) -> NoReturn:
        self.fail(f"{key}={value!r} {why}")

    def refuse_unread(self):
        if self.unread:
            unread = ", ".join(f"{key}={self.given[key]!r}" for key in self.unread)
            self.fail(f"{unread} is not a known rope key here")

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
        why = "must be a number of features or heads"
        return self._number_that(key, lambda x: isinstance(x, int) and x >= 0, why)

    def required(self, key: str) -> Any:
        if self.given.get(key) is None:
            self.fail(f"{key} is missing from the rope parameters {self.given}")
        return self.number(key)

    def flag(self, key: str, default: bool) -> bool:
        value = self.value(key)
        if not isinstance(value, bool | None):
            self.refuse(key, value, "must be true or false")
        return default if value is None else value

    def numbers(self, key: str) -> tuple:
        """The numbers of a list that must be there."""
        value = self.value(key)
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


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)
