"""Names that stand for several: nested groups, `all`, `~name`, and patterns of host names.

Source: lsb.hosts(5), HostGroup; lsb.users(5), UserGroup; lsb.queues(5), HOSTS and USERS. A group that holds itself and
a name that nobody knows are problems; nothing here guesses.
"""

from __future__ import annotations

import graphlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from gsched.base.errors import BadRequest, GschedError
from gsched.config.grammar.findings import MAX_PROBLEMS_PER_FILE, Findings, SourcePlace, show

EVERYBODY = "all"
"""What a group of users holds that holds everybody."""
MAX_GROUPS = 10_000
MAX_MEMBERS = 1_000_000
"""Members of all groups together, nested ones resolved."""

_Range = tuple[int, int, int]
"""First and last number, and how many digits a number with leading zeros has (0: none)."""
_MAX_STARS = 2
_MAX_RANGES = 3
_RIGHTS = re.compile(r"\[(full|usershares)\]$", re.IGNORECASE)
_RANGES = re.compile(r"[0-9]{1,9}(-[0-9]{1,9})?(,[0-9]{1,9}(-[0-9]{1,9})?)*", re.ASCII)


class Definition(msgspec.Struct, frozen=True):
    """A group as written: the words of its member list and where it stands."""

    at: SourcePlace
    words: tuple[str, ...]


class NameChoice(msgspec.Struct, frozen=True):
    """What a list of names means. No `names` at all: everything but `excluded`."""

    names: tuple[str, ...]
    excluded: tuple[str, ...] = ()


def without_rights(word: str) -> str:
    """The name in a word of GROUP_ADMIN. `[full]` and `[usershares]` behind it are for LSF's bconf, which is not
    there.
    """
    return _RIGHTS.sub("", word)


def choose(text: str, expand: Callable[[str], Iterable[str]]) -> NameChoice:
    """The meaning of `all`, `all ~name ...` or `name ... ~name ...`; `expand` says what a word stands for.

    Raises BadRequest, also for what `expand` refuses and when nothing is left.
    """
    words = text.split()
    excluded = dict.fromkeys(name for word in words if word.startswith("~") for name in expand(word[1:]))
    named = [word for word in words if not word.startswith("~")]
    if not named:
        raise BadRequest(f"'{show(text)}' names nobody before '~'; write all ~NAME ...")
    if EVERYBODY in excluded:
        raise BadRequest(f"'{show(text)}' leaves nothing")
    if EVERYBODY in named:
        if len(named) > 1:
            raise BadRequest(f"'{show(text)}': beside all only ~NAME may stand")
        return NameChoice((), tuple(excluded))
    names = dict.fromkeys(name for word in named for name in expand(word))
    if EVERYBODY in names:
        return NameChoice((), tuple(excluded))
    left = tuple(name for name in names if name not in excluded)
    if not left:
        raise BadRequest(f"'{show(text)}' leaves nothing")
    return NameChoice(left)


def resolve(
    kind: str, groups: Mapping[str, Definition], leaf: Callable[[str], Iterable[str]], findings: Findings
) -> dict[str, tuple[str, ...]]:
    """Members of every group with nested groups resolved, in file order. Problems go to `findings`.

    `leaf` says what a word stands for that is no group's name; it raises GschedError. `kind` names the groups in texts.
    """
    resolved: dict[str, tuple[str, ...]] = {}
    order, broken = _innermost_first(kind, groups, findings)
    total = 0
    for name in order:
        definition = groups[name]
        try:
            members = _members(definition.words, resolved, groups, leaf)
            if broken.intersection(word.removeprefix("~") for word in definition.words):
                broken.add(name)  # what is inside has been complained about
            elif not members:
                raise BadRequest("it has no members")
        except GschedError as error:
            findings.error(definition.at, f"{kind} {name}: {error.text}")
            broken.add(name)
            members = ()
        total += len(members)
        if total > MAX_MEMBERS:
            findings.error(definition.at, f"the {kind}s have more than {MAX_MEMBERS} members together")
            break
        resolved[name] = members
    return {name: resolved.get(name, ()) for name in groups}


def _members(
    words: Sequence[str],
    resolved: Mapping[str, tuple[str, ...]],
    groups: Mapping[str, Definition],
    leaf: Callable[[str], Iterable[str]],
) -> tuple[str, ...]:
    members: dict[str, None] = {}
    excluded: set[str] = set()
    for word in words:
        name = word.removeprefix("~")
        meant = resolved.get(name, ()) if name in groups else leaf(name)
        if word.startswith("~"):
            excluded.update(meant)
        else:
            members.update(dict.fromkeys(meant))
    if excluded and EVERYBODY in members:
        raise BadRequest("everybody but some (all ~NAME) is not supported yet in a group; write it where it is used")
    return tuple(name for name in members if name not in excluded)


def _innermost_first(kind: str, groups: Mapping[str, Definition], findings: Findings) -> tuple[list[str], set[str]]:
    """Names of groups, each after those that it holds; and those that hold themselves, each cycle reported once."""
    broken: set[str] = set()
    inside = {
        name: {word for word in (each.removeprefix("~") for each in definition.words) if word in groups}
        for name, definition in groups.items()
    }
    place = {name: number for number, name in enumerate(groups)}
    for _ in range(MAX_PROBLEMS_PER_FILE):
        try:
            return list(graphlib.TopologicalSorter(inside).static_order()), broken
        except graphlib.CycleError as error:
            # The way round as people read it: who holds whom, beginning with the one that stands first in the file.
            cycle = list(reversed(error.args[1]))[1:]
            start = cycle.index(min(cycle, key=place.__getitem__))
            cycle = [*cycle[start:], *cycle[:start], cycle[start]]
            shown = " > ".join(cycle if len(cycle) <= 10 else [*cycle[:8], "...", cycle[-1]])
            findings.error(groups[cycle[0]].at, f"{kind} {cycle[0]} holds itself: {shown}")
            inside[cycle[0]].discard(cycle[1])
            broken.update(cycle)
    return [], broken


def is_pattern(word: str) -> bool:
    """Whether a word stands for the hosts that match it: `gpu*`, `gpu[01-16,20]`."""
    return "*" in word or "[" in word


def matching(pattern: str, names: Iterable[str]) -> tuple[str, ...]:
    """The `names` that match `gpu*` or `gpu[01-16,20]`: `*` any text, `[]` a number. Raises BadRequest."""
    pieces = re.split(r"(\*|\[[^\[\]]*\])", pattern)
    text, ranges = "", list[list[_Range]]()
    for piece in pieces:
        if piece == "*":
            text += ".*"
        elif piece.startswith("[") and _RANGES.fullmatch(piece[1:-1]):
            # After a star the number begins where its digits do.
            text += ("(?<![0-9])" if text.endswith(".*") else "") + "([0-9]{1,9})"
            ranges.append([_range(part) for part in piece[1:-1].split(",")])
        elif "[" in piece or "]" in piece:
            raise BadRequest(f"'{show(pattern)}' is not a pattern such as gpu* or gpu[01-16,20]")
        else:
            text += re.escape(piece)
    # Each star tries every place in a name.
    if pieces.count("*") > _MAX_STARS or len(ranges) > _MAX_RANGES:
        raise BadRequest(f"'{show(pattern)}' has more than {_MAX_STARS} stars or {_MAX_RANGES} ranges")
    expression = re.compile(text, re.ASCII)
    return tuple(name for name in names if _matches(expression.fullmatch(name), ranges))


def _range(part: str) -> _Range:
    low, dash, high = part.partition("-")
    return int(low), int(high if dash else low), len(low) if low.startswith("0") else 0


def _matches(found: re.Match[str] | None, ranges: Sequence[Sequence[_Range]]) -> bool:
    return found is not None and all(
        any(_holds(number, *each) for each in wanted) for number, wanted in zip(found.groups(), ranges, strict=True)
    )


def _holds(digits: str, low: int, high: int, width: int) -> bool:
    """Whether the number is in the range and written as the range says: with zeros up to a width, or without any."""
    number = int(digits)
    return low <= number <= high and (len(digits) == width if width else digits == str(number))
