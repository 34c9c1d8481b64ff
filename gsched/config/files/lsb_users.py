"""lsb.users: limits and groups of users, and what a user's or group's name stands for. Source: lsb.users(5).

Accounts are not looked up: a word that is no group's name is taken for a user.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from gsched.base.errors import BadRequest, GschedError
from gsched.config.grammar.findings import Findings, SourcePlace, show, suggestion
from gsched.config.grammar.sections import ConfigSection, TableRow
from gsched.config.grammar.tables import TableSchema, cell, read_cell, read_columns, read_key, refuse_filled
from gsched.config.grammar.values import integer, real, user_name
from gsched.config.names.external_groups import EXTERNAL, OF_USERS, GroupProgram, is_stand_in, listed
from gsched.config.names.grouping import EVERYBODY, MAX_GROUPS, Definition, NameChoice, choose, resolve, without_rights
from gsched.config.parameters.shares import REMAINDERS, read_shares
from gsched.model.queues.user import Share, UserGroup, UserLimits

_PRIORITY = {"PRIORITY": "the order is that of queue, fairshare and -sp"}
_USER = TableSchema(
    required=("USER_NAME",),
    optional=("MAX_JOBS", "JL/P", "MAX_PEND_JOBS", "MAX_PEND_SLOTS"),
    refused=_PRIORITY,
)
_GROUP = TableSchema(
    required=("GROUP_NAME", "GROUP_MEMBER"), optional=("USER_SHARES", "GROUP_ADMIN"), refused=_PRIORITY
)
_COUNT = integer(0, 2**31 - 2)


class UserNames(msgspec.Struct):
    """All names under which users can be named."""

    groups: dict[str, UserGroup] = msgspec.field(default_factory=dict)

    def expand(self, word: str) -> tuple[str, ...]:
        """The users that a user's or group's name stands for; ("all",) is everybody. Raises BadRequest."""
        if word == EVERYBODY:
            return (EVERYBODY,)
        group = self.groups.get(word)
        return group.users if group is not None else (user_name(word),)

    def consumers(self, text: str) -> NameChoice:
        """What a list of users and groups, `all` or `all ~name ...` means. Raises BadRequest."""
        return choose(text, self.expand)

    def choose(self, text: str) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
        """USERS of a queue: (users, None for all; those left out). Raises BadRequest."""
        chosen = self.consumers(text)
        return chosen.names or None, chosen.excluded

    def listed(self, text: str) -> tuple[str, ...]:
        """Users by name or group; everybody is refused. Raises BadRequest."""
        chosen = self.consumers(text)
        if not chosen.names:
            raise BadRequest(f"'{show(text)}': all cannot stand here; name users or groups")
        return chosen.names


class Users(msgspec.Struct):
    """What lsb.users says."""

    limits: dict[str, UserLimits] = msgspec.field(default_factory=dict)
    names: UserNames = msgspec.field(default_factory=UserNames)
    places: dict[str, SourcePlace] = msgspec.field(default_factory=dict)
    """Where each limit stands."""


def read_users(sections: Sequence[ConfigSection], findings: Findings, egroup: GroupProgram | None = None) -> Users:
    """lsb.users' sections as one value. Every problem goes to `findings`.

    Members that a program lists are asked of `egroup`; None: of nobody.
    """
    users = Users()
    limiting: list[ConfigSection] = []
    grouping: list[ConfigSection] = []
    for section in sections:
        match section.name.casefold():
            case "user":
                limiting.append(section)
            case "usergroup":
                grouping.append(section)
            case "usermap":
                refuse_filled(section, findings)
            case _:
                findings.error(section.at, f"unknown section {section.name} in lsb.users; it holds User and UserGroup")
    # Groups first, whatever the order in the file: limits name them.
    users.names.groups.update(_read_groups(grouping, findings, egroup))
    for section in limiting:
        _read_limits(section, users, findings)
    return users


def _read_limits(section: ConfigSection, users: Users, findings: Findings) -> None:
    for row in read_columns(section, _USER, findings):
        name = read_key(row, "USER_NAME", lambda text: _limited(text, users.names), findings)
        limits = UserLimits(
            name=name or "?",
            max_jobs=read_cell(row, "MAX_JOBS", _COUNT, None, findings),
            max_jobs_per_processor=read_cell(row, "JL/P", real(0, 1e6), None, findings),
            max_pending=read_cell(row, "MAX_PEND_JOBS", _COUNT, None, findings),
            max_pending_slots=read_cell(row, "MAX_PEND_SLOTS", _COUNT, None, findings),
        )
        if name is None:
            continue
        if name in users.places:
            findings.error(row.at, f"user {name} has two rows (first at line {users.places[name].line})")
        else:
            users.limits[name] = limits
            users.places[name] = row.at


def _limited(text: str, names: UserNames) -> str:
    """Whom a row limits: default, a group together, each member of a `group@`, or a user."""
    if text == "default" or text in names.groups:
        return text
    if text.endswith("@"):
        if text[:-1] not in names.groups:
            near = suggestion(text[:-1], names.groups)
            raise BadRequest(f"{show(text)}: there is no user group {show(text[:-1])}{near}")
        return text
    return user_name(text)


def _read_groups(
    sections: Sequence[ConfigSection], findings: Findings, egroup: GroupProgram | None
) -> dict[str, UserGroup]:
    rows = _group_rows(sections, findings)
    definitions: dict[str, Definition] = {}
    for name, row in rows.items():
        words = listed(_words(row), egroup, OF_USERS, name, row.at, findings)
        definitions[name] = Definition(row.at, words)
    users = resolve("user group", definitions, _user_or_all, findings)
    groups = {
        name: UserGroup(
            name=name,
            members=definitions[name].words,
            users=users[name],
            shares=_shares(name, row, definitions, users[name], findings),
        )
        for name, row in rows.items()
    }
    read, nobody = group_administrators(UserNames(groups)), tuple[str, ...]()
    return {
        name: msgspec.structs.replace(group, admins=read_cell(rows[name], "GROUP_ADMIN", read, nobody, findings))
        for name, group in groups.items()
    }


def _words(row: TableRow) -> tuple[str, ...]:
    return tuple(cell(row, "GROUP_MEMBER").text.split())


def _group_rows(sections: Sequence[ConfigSection], findings: Findings) -> dict[str, TableRow]:
    """The rows of all groups by the group's name."""
    rows: dict[str, TableRow] = {}
    for section in sections:
        for row in read_columns(section, _GROUP, findings):
            name = read_key(row, "GROUP_NAME", user_name, findings)
            if cell(row, "GROUP_MEMBER").is_empty:
                findings.error(row.at, "GROUP_MEMBER: nobody is named")
            elif name is not None and name in rows:
                findings.error(row.at, f"user group {name} is defined twice (first at {rows[name].at})")
            elif name is not None and len(rows) < MAX_GROUPS:
                rows[name] = row
            elif name is not None:
                findings.error(row.at, f"more than {MAX_GROUPS} groups")
                return {}
    return rows


def _user_or_all(word: str) -> tuple[str, ...]:
    return (word,) if word == EVERYBODY or is_stand_in(word) else (user_name(word),)


def group_administrators(names: UserNames) -> Callable[[str], tuple[str, ...]]:
    """How GROUP_ADMIN is read: users, by name or by group. The reader raises BadRequest."""
    return lambda text: names.listed(" ".join(without_rights(word) for word in text.split()))


def _shares(
    group: str, row: TableRow, groups: dict[str, Definition], users: tuple[str, ...], findings: Findings
) -> tuple[Share, ...]:
    """USER_SHARES of a group, each for one of its members."""
    try:
        value = cell(row, "USER_SHARES")
        shares = () if value.is_empty else read_shares(value.text, groups)
        known = {*users, *groups[group].words, *REMAINDERS}
        if any(is_stand_in(name) for name in users):
            return shares  # who is a member is for the master to find out
        strangers = [] if EVERYBODY in users else [each for each in shares if each.name.removesuffix("@") not in known]
        for name in (share.name.removesuffix("@") for share in strangers):
            problem = f"{show(name)} is not a member of the group"
            if _words(row) != EXTERNAL:
                raise BadRequest(f"{problem}{suggestion(name, known)}")
            # Whom a directory no longer knows must not keep a cluster from starting.
            findings.note(row.at, f"USER_SHARES: {problem}, as egroup lists it: the share has no effect")
        shares = tuple(share for share in shares if share not in strangers)
    except GschedError as error:
        findings.error(row.at, f"USER_SHARES: {error.text}")
        return ()
    return shares
