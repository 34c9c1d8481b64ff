"""lsb.users: limits and groups of users. Source: lsb.users(5).

The scheduler enforces neither yet, so anything that would limit somebody is refused by name; rows that set nothing
(the shipped `default` row, say) are fine.
"""

from __future__ import annotations

from collections.abc import Sequence

from gsched.config.findings import Findings
from gsched.config.hosts import refuse_filled
from gsched.config.sections import Section
from gsched.config.tables import Columns, read_columns, read_key
from gsched.config.values import user_name

_WHY = "use UJOB_LIMIT of a queue"
_COLUMNS = Columns(
    required=("USER_NAME",),
    refused={"MAX_JOBS": _WHY, "JL/P": _WHY, "MAX_PEND_JOBS": "", "MAX_PEND_SLOTS": "", "PRIORITY": ""},
)


def read_users(sections: Sequence[Section], findings: Findings) -> None:
    """Check lsb.users' sections. Every problem goes to `findings`."""
    seen: dict[str, int] = {}
    for section in sections:
        kind = section.name.casefold()
        if kind in ("usergroup", "usermap"):
            refuse_filled(section, findings)
        elif kind != "user":
            findings.error(section.at, f"unknown section {section.name} in lsb.users; it holds User and UserGroup")
        else:
            for row in read_columns(section, _COLUMNS, findings):
                name = read_key(row, "USER_NAME", _user_or_default, findings)
                if name is not None and name in seen:
                    findings.error(row.at, f"user {name} has two rows (first at line {seen[name]})")
                elif name is not None:
                    seen[name] = row.at.line


def _user_or_default(text: str) -> str:
    return text if text == "default" else user_name(text)
