"""What the code itself does with each parameter and each option of LSF: asked of its readers and tables.

A configuration with all sections is checked while the readers are watched: which names they read, and which they know
only to say why not. It must never repeat a name that the code decides about.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath
from typing import Any
from unittest.mock import patch

from gsched.app.commands import groups
from gsched.cli.commands.job_control import gresize
from gsched.cli.registry import ALIASES, table_of
from gsched.config.configuration import check_texts
from gsched.config.grammar import tables
from gsched.config.grammar.sections import ConfigSection, ConfigTable
from gsched.config.grammar.values import KeyValues
from gsched.dialect.options import Option


class Standing(StrEnum):
    """What becomes of a name of LSF here."""

    SAME = "same"
    TRANSLATED = "translated"
    NOTED = "noted"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Answer:
    """One name, and the reason where it is not read."""

    standing: Standing
    reason: str = ""


@dataclass(slots=True)
class Heard:
    """File or file/Section -> name, in small letters -> answer."""

    answers: dict[str, dict[str, Answer]] = field(default_factory=dict)

    def put(self, where: str, names: Mapping[str, Answer]) -> None:
        kept = self.answers.setdefault(where, {})
        kept.update({name.casefold(): answer for name, answer in names.items()})


_NEEDED = {
    "lsf.conf": "LSB_SHAREDIR=/var/lib/g\nLSF_LOGDIR=/var/log/g\nLSF_SERVERDIR=/usr/libexec/g\n",
    "lsf.shared": (
        "Begin Cluster\nClusterName\nc1\nEnd Cluster\n"
        "Begin HostModel\nMODELNAME CPUFACTOR ARCHITECTURE\nfast 2.5 ()\nEnd HostModel\n"
        "Begin HostType\nTYPENAME\nLINUX64\nEnd HostType\n"
        "Begin Resource\nRESOURCENAME TYPE INTERVAL INCREASING CONSUMABLE DESCRIPTION\n"
        "scratch Numeric 30 N Y (free)\nEnd Resource\n"
    ),
    "lsf.cluster.c1": (
        "Begin Parameters\nEnd Parameters\n"
        "Begin ClusterAdmins\nADMINISTRATORS = adm\nEnd ClusterAdmins\n"
        "Begin Host\nHOSTNAME model type server RESOURCES\nh1 fast LINUX64 1 ()\nEnd Host\n"
        "Begin ResourceMap\nRESOURCENAME LOCATION\nscratch ([default])\nEnd ResourceMap\n"
    ),
    "lsb.params": "Begin Parameters\nDEFAULT_QUEUE = normal\nEnd Parameters\n",
    "lsb.queues": "Begin Queue\nQUEUE_NAME = normal\nEnd Queue\n",
    "lsb.applications": "Begin Application\nNAME = a\nEnd Application\n",
    "lsb.hosts": (
        "Begin Host\nHOST_NAME MXJ\ndefault !\nEnd Host\n"
        "Begin HostGroup\nGROUP_NAME GROUP_MEMBER\ng1 (h1)\nEnd HostGroup\n"
        "Begin ComputeUnit\nNAME MEMBER TYPE\nu1 (h1) rack\nEnd ComputeUnit\n"
    ),
    "lsb.users": (
        "Begin User\nUSER_NAME MAX_JOBS\ndefault 9\nEnd User\n"
        "Begin UserGroup\nGROUP_NAME GROUP_MEMBER\nusers (ann)\nEnd UserGroup\n"
    ),
    "lsb.resources": (
        "Begin Limit\nNAME = l\nSLOTS = 9\nEnd Limit\n"
        "Begin ReservationUsage\nRESOURCE METHOD\nscratch PER_HOST\nEnd ReservationUsage\n"
        "Begin ResourceReservation\nNAME = r\nEnd ResourceReservation\n"
        "Begin GuaranteedResourcePool\nNAME = p\nTYPE = slots\nDISTRIBUTION = [s, 1]\nEnd GuaranteedResourcePool\n"
    ),
    "lsb.serviceclasses": "Begin ServiceClass\nNAME = s\nGOALS = [GUARANTEE]\nEnd ServiceClass\n",
}


def parameters() -> Heard:
    """What the readers of the files say."""
    heard = Heard()
    with _watched(heard):
        check_texts("/conf", _NEEDED)
    return heard


def _file(path: str) -> str:
    name = PurePath(path).name
    return "lsf.cluster" if name.startswith("lsf.cluster.") else name


@contextmanager
def _watched(heard: Heard) -> Iterator[None]:
    finish, keywords = KeyValues.finish, tables._check_keywords

    def watched_finish(self: Any, refused: Any, without_effect: Any, also_known: Any = (), as_here: Any = None) -> None:
        files = {_file(entry.at.path) for entry in self._entries.values()}
        for where in files or {"lsf.cluster"}:  # only its Parameters are empty above
            heard.put(where, {name: Answer(Standing.REFUSED, why) for name, why in refused.items()})
            heard.put(where, {name: Answer(Standing.NOTED, why) for name, why in without_effect.items()})
            heard.put(where, dict.fromkeys(self._taken, Answer(Standing.SAME)))
            if self._where.startswith("section "):  # two sections of a file may read a name in different ways
                section = f"{where}/{self._where.removeprefix('section ')}"
                heard.put(section, {name: Answer(Standing.REFUSED, why) for name, why in refused.items()})
                heard.put(section, {name: Answer(Standing.NOTED, why) for name, why in without_effect.items()})
                heard.put(section, dict.fromkeys(self._taken, Answer(Standing.SAME)))
            for name, (words, why) in (as_here or {}).items():
                shown = " ".join(sorted(words & {"y", "n"} or words)).upper()
                # Another value is refused; but that a part of LSF is not there is no counterpart of it.
                standing = Standing.NOTED if "n" in words else Standing.TRANSLATED
                only = "" if name in without_effect else " alone"  # other values are accepted, too, and noted
                heard.put(where, {name: Answer(standing, f"{shown}{only}: {why}")})
        finish(self, refused, without_effect, also_known, as_here)

    def watched_keywords(section: ConfigSection, table: ConfigTable, schema: Any, findings: Any) -> None:
        where = f"{_file(section.at.path)}/{section.name}"
        heard.put(where, {name: Answer(Standing.REFUSED, why) for name, why in schema.refused.items()})
        heard.put(where, dict.fromkeys((*schema.required, *schema.optional), Answer(Standing.SAME)))
        keywords(section, table, schema, findings)

    with patch.object(KeyValues, "finish", watched_finish), patch.object(tables, "_check_keywords", watched_keywords):
        yield


def options(command: str) -> dict[str, Answer] | None:
    """Option, without its dash -> answer; None: there is no such command."""
    if command not in ALIASES:
        return None
    found = {option.name: _of_option(option) for option in table_of(command).options}
    return found | dict.fromkeys(gresize.WORDS if command == "bresize" else (), Answer(Standing.SAME))


def _of_option(option: Option) -> Answer:
    if option.refused:
        return Answer(Standing.REFUSED, option.refused)
    return Answer(Standing.NOTED, option.noted) if option.noted else Answer(Standing.SAME)


def words(group: str) -> dict[str, Answer]:
    """Word of badmin or lsadmin -> answer."""
    found = {word: Answer(Standing.REFUSED, why) for word, why in groups.UNSUPPORTED.items()}
    command = groups.gadmin if group == "badmin" else groups.lsadmin
    return found | dict.fromkeys(command.words(), Answer(Standing.SAME))
