"""GPU_IDLE as a file gives it: settings between blanks, each once, those that are left out have their defaults.

gsched's own: LSF knows no idle GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import show, suggestion
from gsched.config.grammar.values import number, queue_name
from gsched.model.gpus.gpu_idle import IdleLimits
from gsched.model.queues.gpu_idle_policy import ExemptKind, GpuIdlePolicy, IdleAction

LEAST_SAMPLES = 3
"""A window that has fewer would be decided by one look."""
LONGEST_S = 30 * 86_400.0
_UNITS = {"": 60.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_SETTING = re.compile(r"([A-Za-z]+)([=<])(.*)", re.DOTALL)
_TIME = re.compile(r"([0-9]{1,7}(?:\.[0-9]{1,3})?)([smhd]?)")
ListedUsers = Callable[[str], tuple[str, ...]]
"""Name of a user or of a group -> users. Raises BadRequest."""
_FORM = "window=TIME util<N% memtraffic<N% power<N% grace=TIME action=WORD exempt=WHOM ok=yes|no"
_LIMITS = {"util": "util", "memtraffic": "traffic", "power": "power"}


def gpu_idle(users: ListedUsers, profiles: Collection[str], sample_s: float) -> Callable[[str], GpuIdlePolicy]:
    """A reader of GPU_IDLE. `profiles`: the names of application profiles; `sample_s`: seconds between two samples."""

    def read(text: str) -> GpuIdlePolicy:
        policy = _read(text, users, profiles)
        if policy.window_s < LEAST_SAMPLES * sample_s:
            few = f"fewer than {LEAST_SAMPLES} samples, which are {sample_s:g} s apart (GSCHED_GPU_USE_INTERVAL)"
            raise BadRequest(f"a window of {policy.window_s:g} s has {few}")
        return policy

    return read


def _read(text: str, users: ListedUsers, profiles: Collection[str]) -> GpuIdlePolicy:
    given: dict[str, tuple[str, str]] = {}
    for word in text.split():
        found = _SETTING.fullmatch(word)
        name = found[1] if found is not None else word
        if found is None or name not in _READERS or found[2] != ("<" if name in _LIMITS else "="):
            raise BadRequest(f"'{show(word)}' is not of the form {_FORM}{suggestion(name, _READERS)}")
        if name in given:
            raise BadRequest(f"{name} is given twice")
        given[name] = (word, found[3])
    values: dict[str, Any] = {}
    limits: dict[str, float] = {}
    for name, (word, value) in given.items():
        try:
            if name in _LIMITS:
                limits[_LIMITS[name]] = _percent(value, 0.0 if name == "power" else None)
            elif name == "exempt":
                values |= _exempt(value, users, profiles)
            else:
                values |= _READERS[name](value)
        except BadRequest as error:
            raise BadRequest(f"'{show(word)}': {error.text}") from None
    return GpuIdlePolicy(limits=msgspec.structs.replace(IdleLimits(), **limits), **values)


def _time_s(text: str, least_s: float) -> float:
    found = _TIME.fullmatch(text)
    seconds = float(found[1]) * _UNITS[found[2]] if found is not None else -1.0
    if not least_s <= seconds <= LONGEST_S:
        raise BadRequest(f"a time such as 90s, 30m or 2h is wanted (30 is 30 minutes), from {least_s:g}s to 30d")
    return seconds


def _percent(text: str, least: float | None) -> float:
    """`least`: that is allowed, too; None: only more than 0 is."""
    value = number(text.removesuffix("%"))
    if not 0.0 <= value <= 100.0 or (value == 0.0 and least is None):
        raise BadRequest("a percentage is wanted, " + ("from 0 to 100" if least == 0.0 else "more than 0, at most 100"))
    return value


def _action(text: str) -> dict[str, Any]:
    if text not in set(IdleAction):
        raise BadRequest(f"an action is one of {' '.join(IdleAction)}")
    return {"action": IdleAction(text)}


def _may_ask(text: str) -> dict[str, Any]:
    if text not in ("yes", "no"):
        raise BadRequest("yes or no is wanted")
    return {"may_ask": text == "yes"}


def _exempt(text: str, users: ListedUsers, profiles: Collection[str]) -> dict[str, Any]:
    found: list[tuple[ExemptKind, str]] = []
    exempt_users: list[str] = []
    for word in text.split(","):
        kind, colon, name = word.partition(":")
        if kind not in set(ExemptKind) or bool(colon) is (kind == ExemptKind.INTERACTIVE) or (colon and not name):
            raise BadRequest("user:NAME, project:NAME, app:NAME and interactive are wanted, with commas between")
        if kind == ExemptKind.USER:
            exempt_users += users(name)
        elif kind == ExemptKind.APPLICATION and queue_name(name) not in profiles:
            known = suggestion(name, profiles)
            raise BadRequest(f"there is no application profile {show(name)} in lsb.applications{known}")
        found.append((ExemptKind(kind), name))
    return {"exempt": tuple(dict.fromkeys(found)), "exempt_users": frozenset(exempt_users)}


_READERS: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "window": lambda text: {"window_s": _time_s(text, 1.0)},
    **dict.fromkeys((*_LIMITS, "exempt"), lambda text: {}),
    "grace": lambda text: {"grace_s": _time_s(text, 0.0)},
    "action": _action,
    "ok": _may_ask,
}
"""Of settings that need nothing else; the others are only known."""
