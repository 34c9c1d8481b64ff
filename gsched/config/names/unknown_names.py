"""Names in the files that neither a user group nor an account of this machine has: a slip of the pen, mostly.

It only notes them, for accounts may be known elsewhere; whether a name is an account's is the caller's to say. It
reads the sections once more and never repeats what their own readers have complained about.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from gsched.config.grammar.findings import Findings, SourcePlace, show, suggestion
from gsched.config.grammar.sections import ConfigSection, is_table, read_entries, read_table
from gsched.config.grammar.values import RESERVED_WORDS
from gsched.config.names.grouping import without_rights

_SETTINGS = {
    "clusteradmins": ("ADMINISTRATORS",),
    "queue": ("USERS", "ADMINISTRATORS", "FAIRSHARE"),
    "user": ("USER_NAME",),
    "usergroup": ("GROUP_MEMBER", "USER_SHARES", "GROUP_ADMIN"),
    "hostgroup": ("GROUP_ADMIN",),
    "computeunit": ("ADMIN",),
    "limit": ("USERS", "PER_USER"),
}
"""Section -> settings (or columns) that name users. Source: lsf.cluster(5), lsb.queues(5), lsb.users(5),
lsb.hosts(5), lsb.resources(5)."""
_SHARE = re.compile(r"\[([^\[\],]*),")
_MOST_NOTES = 50
"""In one file: its other problems must still be listed."""
_MOST_NAMES = 5


def note_unknown_names(
    files: Mapping[str, Sequence[ConfigSection]],
    groups: Collection[str],
    has_account: Callable[[str], bool],
    findings: Findings,
    listed: Sequence[tuple[SourcePlace, Sequence[str]]] = (),
) -> None:
    """A note for each line of `files` (path -> sections) with names that are neither in `groups` nor an account's.

    `listed` are members of groups that a program has listed, with where each group stands.
    """
    known: dict[str, bool] = dict.fromkeys((*groups, *RESERVED_WORDS), True)
    for path, sections in files.items():
        noted, left = 0, 0
        told = [(at, "GROUP_MEMBER", list(_names("GROUP_MEMBER", " ".join(words)))) for at, words in listed]
        for at, key, names in (*_mentions(sections), *(each for each in told if each[0].path == path)):
            for name in names:
                if name not in known:
                    known[name] = has_account(name)
            unknown = [name for name in names if not known[name]]
            if unknown and noted < _MOST_NOTES:
                findings.note(
                    at,
                    f"{key}: {_told(unknown, [name for name in known if known[name] and name not in RESERVED_WORDS])}",
                )
                noted += 1
            elif unknown:
                left += 1
        if left:
            findings.note(SourcePlace(path), f"{left} more lines name users or groups that there are not")


def _told(unknown: Sequence[str], known: Sequence[str]) -> str:
    shown = ", ".join(show(name) for name in unknown[:_MOST_NAMES])
    more = f" and {len(unknown) - _MOST_NAMES} more" if len(unknown) > _MOST_NAMES else ""
    near = suggestion(unknown[0], known) if len(unknown) == 1 else ""
    return f"there is no user or user group {shown}{more}{near}"


def _mentions(sections: Sequence[ConfigSection]) -> Iterator[tuple[SourcePlace, str, list[str]]]:
    """(place, setting, names in it) of all that names users."""
    for section in sections:
        wanted = _SETTINGS.get(section.name.casefold(), ())
        for at, key, text in _values(section) if wanted else ():
            setting = key.upper()
            if setting in wanted:
                yield at, setting, list(dict.fromkeys(_names(setting, text)))


def _values(section: ConfigSection) -> Iterator[tuple[SourcePlace, str, str]]:
    quiet = Findings()
    if not is_table(section):
        yield from ((entry.at, entry.key, entry.value) for entry in read_entries(section, quiet))
        return
    table = read_table(section, quiet)
    for row in table.rows if table is not None else ():
        yield from ((row.at, key, value.text) for key, value in row.cells.items())


def _names(setting: str, text: str) -> Iterator[str]:
    words = _SHARE.findall(text) if setting in ("FAIRSHARE", "USER_SHARES") else text.split()
    for word in words:
        name = without_rights(word.strip()) if setting in ("GROUP_ADMIN", "ADMIN") else word.strip()
        name = name.removeprefix("~").removesuffix("@")
        if name and name not in ("-", "!"):
            yield name
