"""`gusers` (busers), `gugroup` (bugroup) and `gmgroup` (bmgroup). Source of the layouts: these pages of LSF 10.1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gsched.cli.render.text.output_formats import Field, FieldTable, FieldValue
from gsched.cli.render.text.text_columns import cell, left, printable
from gsched.model.views.catalogue import Grouping, UserLimitView

_COLUMNS = ("MAX", "NJOBS", "PEND", "RUN", "SSUSP", "USUSP", "RSV")
_HEADER = f"{'USER/GROUP':<18} {'JL/P':>5} " + "".join(f"{name:>6} " for name in _COLUMNS)
_NAME = 12
"""Columns of a group's name."""


def njobs(user: UserLimitView) -> int:
    """Slots of all jobs that have not ended."""
    return user.pend + started(user) + user.rsv


def started(user: UserLimitView) -> int:
    """Slots of started jobs."""
    return user.run + user.ssusp + user.ususp


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def render_users(users: Iterable[UserLimitView], *, header: bool = True, wide: bool = False) -> str:
    """One row per user or group; `wide` (-w) cuts no name and adds jobs that wait and how many may."""
    more = f"{'PJOBS':>6} {'MPEND':>6} {'MPJOBS':>6} " if wide else ""
    lines = [_HEADER + more + "\n"] if header else []
    for user in users:
        name = printable(user.name)
        counts = (user.pend, user.run, user.ssusp, user.ususp, user.rsv)
        cells = [f"{_number(user.max_slots):>6} {njobs(user):6d} ", *(f"{count:6d} " for count in counts)]
        if wide:
            cells.append(f"{user.pending_jobs:6d} {_number(user.max_pending_slots):>6} {_number(user.max_pending):>6} ")
        shown = left(name, 18) if wide else cell(name, 18)
        lines.append(f"{shown} {_number(user.per_processor):>5} " + "".join(cells) + "\n")
    return "".join(lines)


def render_pending(users: Iterable[UserLimitView], *, header: bool = True, wide: bool = False) -> str:
    """-pl: slots and jobs that wait, and the limits of both."""
    lines = [f"{'USER/GROUP':<18} {'MPEND':>6} {'PEND':>6} {'MPJOBS':>6} {'PJOBS':>6}\n"] if header else []
    for user in users:
        shown = left(printable(user.name), 18) if wide else cell(printable(user.name), 18)
        slots = f"{_number(user.max_pending_slots):>6} {user.pend:6d}"
        lines.append(f"{shown} {slots} {_number(user.max_pending):>6} {user.pending_jobs:6d}\n")
    return "".join(lines)


def _user(value: Callable[[UserLimitView], str | float | None]) -> FieldValue[UserLimitView]:
    return lambda user, _: value(user)


def _gpus(user: UserLimitView, *claims: str) -> str:
    return f"{sum(amount for claim, amount in user.gpus.items() if not claims or claim in claims):g}"


_EXCLUSIVE = ("ngpus_excl_p", "ngpus_excl_t")

USER_FIELDS: FieldTable[UserLimitView] = FieldTable(
    "-o",
    (
        Field("user", 15, _user(lambda user: user.name), ("user_name",)),
        Field("jl_p", 8, _user(lambda user: _number(user.per_processor)), ("jl/p", "jlp")),
        Field("max", 8, _user(lambda user: _number(user.max_slots))),
        Field("nstart", 8, _user(lambda user: str(started(user)))),
        Field("pend", 8, _user(lambda user: str(user.pend))),
        Field("run", 8, _user(lambda user: str(user.run))),
        Field("ssusp", 8, _user(lambda user: str(user.ssusp))),
        Field("ususp", 8, _user(lambda user: str(user.ususp))),
        Field("rsv", 8, _user(lambda user: str(user.rsv))),
        Field("njobs", 8, _user(lambda user: str(njobs(user)))),
        Field("pjobs", 8, _user(lambda user: str(user.pending_jobs))),
        Field("mpend", 8, _user(lambda user: _number(user.max_pending_slots))),
        Field("mpjobs", 8, _user(lambda user: _number(user.max_pending))),
        Field("priority", 8, _user(lambda user: None)),
        Field("ngpus", 8, _user(_gpus)),
        Field("ngpus_shared", 12, _user(lambda user: _gpus(user, "ngpus_shared"))),
        Field("ngpus_excl", 10, _user(lambda user: _gpus(user, *_EXCLUSIVE))),
        Field("ngpus_shared_jexcl", 18, _user(lambda user: None)),
    ),
)
"""Fields of `gusers -o`. Source: lsf.conf(5), LSB_BUSERS_FORMAT."""


def render_groups(
    groups: Sequence[Grouping], what: str, names: Iterable[str], *, recursive: bool = False, wide: bool = False
) -> str:
    """A line per group with its members (`what`: HOSTS or USERS); a group among them, of `names`, ends in `/`.

    `recursive` (-r): hosts or users only. `wide` (-w): names are not cut.
    """
    known = set(names)
    lines = [f"{'GROUP_NAME':<{_NAME}}  {what}\n"]
    for group in groups:
        name = left(printable(group.name), _NAME) if wide else cell(printable(group.name), _NAME)
        members = group.resolved if recursive else tuple(_member(each, known) for each in group.members)
        lines.append(f"{name}  {' '.join(printable(each) for each in members)}\n")
    return "".join(lines)


def _member(name: str, groups: set[str]) -> str:
    return f"{name}/" if name in groups else name


def render_groups_long(groups: Iterable[Grouping], names: Iterable[str], *, recursive: bool = False) -> str:
    """`gugroup -l`: members, shares and administrators of each group."""
    known = set(names)
    parts = []
    for group in groups:
        members = group.resolved if recursive else tuple(_member(each, known) for each in group.members)
        parts.append(
            f"GROUP_NAME:  {printable(group.name)}\nUSERS:  {' '.join(printable(each) for each in members)}\n"
            f"GROUP_ADMIN:  {' '.join(group.admins) or '-'}\nSHARES:  {' '.join(group.shares) or '-'}\n"
        )
    return "\n".join(parts)


def render_host_groups_long(groups: Iterable[Grouping], names: Iterable[str], *, recursive: bool = False) -> str:
    """`gmgroup -l`: members and administrators of each group of hosts, and the type of a compute unit."""
    known = set(names)
    parts = []
    for group in groups:
        members = group.resolved if recursive else tuple(_member(each, known) for each in group.members)
        kind = f"TYPE:  {group.unit_type}\n" if group.unit_type else ""
        parts.append(
            f"GROUP_NAME:  {printable(group.name)}\n{kind}HOSTS:  {' '.join(printable(each) for each in members)}\n"
            f"GROUP_ADMIN:  {' '.join(group.admins) or '-'}\n"
        )
    return "\n".join(parts)
