"""What gmgroup and gugroup share: which groups were named, and what is said of those that do not exist."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gsched.base.errors import LSF_FAILURE
from gsched.cli.session.call import Call
from gsched.model.views.catalogue import Grouping


def chosen_groups(groups: Sequence[Grouping], words: Iterable[str]) -> tuple[list[Grouping], list[str]]:
    """The named groups, or all, and the names that are none. A name may end in `/`."""
    names = [word.rstrip("/") for word in words]
    if not names:
        return list(groups), []
    known = {group.name: group for group in groups}
    return [known[name] for name in names if name in known], [name for name in names if name not in known]


def say_unknown(call: Call, unknown: Iterable[str], what: str, *, is_empty: bool) -> int:
    """A line for each name that is no group; the command's exit code. Source of the texts: bmgroup(1), bugroup(1)."""
    names = list(unknown)
    for name in names:
        call.error(f"{name}: No such user/host group\n")
    if is_empty and not names:
        call.error(f"No {what.lower()} defined in the system\n")
    return LSF_FAILURE if names or is_empty else 0
