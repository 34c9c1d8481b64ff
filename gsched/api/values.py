"""Values as programs give them: numbers of any library, paths, sequences; what is none of these is refused by name.

It knows Python's types and no option's meaning. Nothing here imports numpy: its numbers say themselves what they are.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from difflib import get_close_matches
from numbers import Number
from threading import TIMEOUT_MAX
from typing import Any

from gsched.base.errors import BadRequest


def wrong(name: str, value: object, wanted: str) -> BadRequest:
    """An option with a value of a kind that it cannot have."""
    shown = repr(value)
    if len(shown) > 60:
        shown = f"{shown[:57]}..."
    return BadRequest(f"{name}={shown}: {wanted} is wanted, this is of type {type(value).__name__}")


def nearest(name: object, known: Iterable[str]) -> str:
    """`; did you mean 'gpus'?`, or nothing."""
    found = get_close_matches(str(name), list(known), 1)
    return f"; did you mean '{found[0]}'?" if found else ""


def whole_or_none(value: Any) -> int | None:
    """The whole number that this is: an int, a float without a fraction, or what another library has of that kind."""
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return None
    try:
        return operator.index(value)
    except TypeError:
        pass
    if isinstance(value, Number) and not isinstance(value, complex):
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            return None
        return int(number) if number.is_integer() else None
    return None


def whole(name: str, value: Any, besides: str = "") -> int:
    """The same. Raises BadRequest for anything else; `besides` says what else the option takes."""
    number = whole_or_none(value)
    if number is None:
        raise wrong(name, value, f"a whole number{besides}")
    return number


def plain(value: str) -> str:
    """The text itself of a text of another library, or of an enumeration: messages of the master hold nothing else."""
    return str.__str__(value)


def text(name: str, value: Any) -> str:
    """A text, a path, or a whole number in digits. Raises BadRequest for anything else."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    return str(whole(name, value, " or a text"))


def path(name: str, value: Any) -> str:
    """A path as a text. Raises BadRequest for anything else."""
    if not isinstance(value, str | os.PathLike):
        raise wrong(name, value, "a path")
    return plain(os.fsdecode(value))


def texts(name: str, value: Any) -> list[str]:
    """One text, or each of several. Raises BadRequest for anything else."""
    if isinstance(value, str):
        return [plain(value)]
    return [one_text(name, each) for each in members(name, value, "a text or a list of texts")]


def one_text(name: str, value: Any) -> str:
    """A text. Raises BadRequest for anything else."""
    if not isinstance(value, str):
        raise wrong(name, value, "a text")
    return plain(value)


def members(name: str, value: Any, wanted: str) -> list[Any]:
    """What a sequence holds. Raises BadRequest for what is none; a text and a dict are none."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise wrong(name, value, wanted)
    try:
        return list(value)
    except TypeError:  # an array of no dimension says that it could be gone through, and cannot
        raise wrong(name, value, wanted) from None


def word(name: str, value: Any) -> str:
    """A word of a command: a text, a path or a number as Python prints it. Raises BadRequest for anything else."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, bool) or not isinstance(value, Number):
        raise wrong(name, value, "a text, a path or a number")
    return str(value)


def truth(name: str, value: Any) -> bool:
    """True or False, numpy's too. Raises BadRequest for anything else."""
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    raise wrong(name, value, "True or False")


def seconds(name: str, value: Any) -> float | None:
    """A number of seconds, at least 0; None stays None. Raises BadRequest for anything else."""
    if value is None:
        return None
    try:
        number = -1.0 if isinstance(value, bool | str) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    if not number >= 0:
        raise wrong(name, value, "a number of seconds, at least 0,")
    return min(number, TIMEOUT_MAX)


def duration(name: str, value: Any) -> timedelta:
    """A timedelta, also one of numpy or pandas. Raises BadRequest for anything else."""
    item: Callable[[], object] | None = getattr(value, "item", None)
    found = item() if callable(item) and type(value).__name__ == "timedelta64" else value
    if not isinstance(found, timedelta):
        raise wrong(name, value, "timedelta(minutes=...) or '[hours:]minutes'")
    return found


def environment(value: Any) -> dict[str, str]:
    """The variables of `env=`: texts, paths and whole numbers. Raises BadRequest for anything else."""
    if not isinstance(value, Mapping):
        raise wrong("env", value, "a dict of variables")
    found = {}
    for key, each in value.items():
        if not isinstance(key, str):
            raise wrong("env", key, "a name of a variable")
        found[plain(key)] = text(f"env[{plain(key)!r}]", each)
    return found
