"""Tables of sacct, sstat, sshare and sacctmgr: `--format=JobID,State%20`, with a heading and dashes, or parsable.

Source: sacct(1), --format, --parsable, --parsable2, --delimiter, of Slurm 22.05.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from gsched.base.errors import BadRequest
from gsched.cli.slurm.formats import separators, shielded
from gsched.dialect.slurm.gnu_options import GnuOption, GnuWords

AccountingRow = TypeVar("AccountingRow")
_WIDTH = re.compile(r"-?[0-9]{1,4}", re.ASCII)
_MOST_FIELDS = 300
_NAMES_IN_A_LINE = 4
PARSABLE = (
    GnuOption("noheader", "n", help="no heading"),
    GnuOption("parsable", "p", help="fields between |, and one behind the last"),
    GnuOption("parsable2", "P", help="fields between |"),
)


@dataclass(frozen=True, slots=True)
class TableField(Generic[AccountingRow]):
    """A field. `width`: characters, below 0 aligned to the left."""

    name: str
    width: int
    value: Callable[[AccountingRow], str]
    is_free: bool = False
    """Users choose the text."""


AccountingFields = Mapping[str, TableField[AccountingRow]]
"""By their names in small letters, in the order of the manual."""


def by_name(fields: Iterable[TableField[AccountingRow]]) -> dict[str, TableField[AccountingRow]]:
    """The fields by their names in small letters."""
    return {field.name.lower(): field for field in fields}


class AccountingTable(Generic[AccountingRow]):
    """Fields of a list such as `JobID,State%20`; a name may be cut short. Raises BadRequest naming what is unknown."""

    def __init__(
        self, text: str, known: AccountingFields[AccountingRow], also: Mapping[str, str] | None = None
    ) -> None:
        """`also`: other names -> names."""
        names = [each.strip() for each in text.split(",") if each.strip()]
        if len(names) > _MOST_FIELDS:
            raise BadRequest(f"--format: more than {_MOST_FIELDS} fields")
        if not names:
            raise BadRequest("--format: no field is named")
        self._fields: list[tuple[TableField[AccountingRow], int]] = []
        for each in names:
            name, percent, width = each.partition("%")
            if name.lower() == "all" and not percent:
                self._fields += [(field, field.width) for field in known.values()]
                continue
            field = _field(name, known, also or {})
            if percent and not _WIDTH.fullmatch(width):
                raise BadRequest(f"--format: '{each[:40]}': a number of characters follows %")
            self._fields.append((field, int(width) if percent else field.width))

    def lines(self, rows: Iterable[AccountingRow], words: GnuWords) -> Iterator[str]:
        """The table as -p, -P, -n and --delimiter want it."""
        between = words.value("delimiter", "|")
        is_parsable = words.has("parsable", "parsable2")
        end = between if words.has("parsable") and not words.has("parsable2") else ""
        apart = separators(between) if is_parsable else frozenset[str]()
        if not words.has("noheader"):
            names = [field.name for field, _ in self._fields]
            if is_parsable:
                yield between.join(names) + end + "\n"
            else:
                yield self._line([name[: abs(width)] for name, (_, width) in zip(names, self._fields, strict=True)])
                yield " ".join("-" * abs(width) for _, width in self._fields) + " \n"
        for row in rows:
            texts = [shielded(field.value(row), apart, is_free=field.is_free) for field, _ in self._fields]
            if not any(texts):  # nothing to say
                continue
            yield between.join(texts) + end + "\n" if is_parsable else self._line(texts)

    def _line(self, texts: Iterable[str]) -> str:
        return "".join(f"{_fitted(text, width)} " for text, (_, width) in zip(texts, self._fields, strict=True)) + "\n"


def _fitted(text: str, width: int) -> str:
    """In its column; a plus stands for what is cut off."""
    room = abs(width)
    if len(text) > room:
        text = text[: max(0, room - 1)] + "+" if room else ""
    return text.rjust(room) if width > 0 else text.ljust(room)


def _field(name: str, known: AccountingFields[AccountingRow], also: Mapping[str, str]) -> TableField[AccountingRow]:
    wanted = also.get(name.lower(), name.lower())
    if wanted in known:
        return known[wanted]
    found = next((field for each, field in known.items() if wanted and each.startswith(wanted)), None)
    if found is None:
        raise BadRequest(f'Invalid field requested: "{name[:60]}"')
    return found


def field_names(known: AccountingFields[AccountingRow]) -> str:
    """What --helpformat prints."""
    names = [field.name for field in known.values()]
    rows = [names[at : at + _NAMES_IN_A_LINE] for at in range(0, len(names), _NAMES_IN_A_LINE)]
    return "".join("".join(name.ljust(20) for name in row).rstrip() + "\n" for row in rows)
