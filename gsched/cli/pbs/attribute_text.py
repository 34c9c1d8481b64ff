"""Attributes of jobs, queues, servers and nodes as qstat -f and pbsnodes print them: lines, dsv, JSON.

Source: qstat(1B) and pbsnodes(8B) of OpenPBS 23, -F.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping

from gsched.base.errors import BadRequest
from gsched.cli.pbs.pbs_job_facts import Attributes
from gsched.dialect.slurm.gnu_options import GnuWords

LINE_LIMIT = 79
FORMATS = ("default", "dsv", "json")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,6})?", re.ASCII)


def format_of(words: GnuWords) -> str:
    """-F. Raises BadRequest."""
    name = words.value("F", "default").lower()
    if name not in FORMATS:
        raise BadRequest(f"-F {name[:40]}: {', '.join(FORMATS)} are formats")
    if words.has("D") and name != "dsv":
        raise BadRequest("-D is for -F dsv")
    if words.has("D") and not words.value("D"):
        raise BadRequest("-D: characters are expected")
    return name


def as_lines(attributes: Attributes, *, wide: bool, indent: str = "    ") -> Iterator[str]:
    """`    name = value`, folded at commas unless `wide`."""
    for name, value in _flat(attributes):
        if wide:
            yield f"{indent}{name} = {one_line(value)}\n"
        else:
            yield f"{indent}{_folded(name, one_line(value), indent)}\n"


def as_dsv(title: str, attributes: Attributes, delimiter: str) -> str:
    """`Job Id: 12.server|name=value|...`; a delimiter within a value has a backslash before it."""
    fields = [f"{name}={dsv_value(value, delimiter)}" for name, value in _flat(attributes)]
    return delimiter.join([title, *fields]) + "\n"


def as_json(kind: str, objects: Mapping[str, object], server: str, version: str) -> str:
    """All of them, as PBS lays it out, in ASCII: nothing in it moves a terminal."""
    whole = {"timestamp": int(time.time()), "pbs_version": version, "pbs_server": server, kind: objects}
    return json.dumps(whole, indent=4) + "\n"


def json_values(attributes: Attributes) -> dict[str, object]:
    """The attributes with numbers as numbers, as PBS writes them."""
    return {
        name: {resource: _json_value(each) for resource, each in value.items()}
        if isinstance(value, dict)
        else value
        if name in ("Job_Name", "Account_Name", "project", "queue")
        else _json_value(value)
        for name, value in attributes.items()
    }


def one_line(text: str) -> str:
    """What cannot be shown is told by its number."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def _json_value(text: str) -> object:
    if not _NUMBER.fullmatch(text):
        return text
    return float(text) if "." in text else int(text)


def _flat(attributes: Attributes) -> Iterator[tuple[str, str]]:
    for name, value in attributes.items():
        if not isinstance(value, dict):
            yield name, value
        elif name == "Variable_List":
            yield name, ",".join(f"{each}={text}" for each, text in value.items())
        else:
            for resource, text in value.items():
                yield f"{name}.{resource}", text


def dsv_value(text: str, delimiter: str) -> str:
    """One line, with a backslash before each backslash and delimiter."""
    return one_line(text).replace("\\", "\\\\").replace(delimiter, f"\\{delimiter}")


def _folded(name: str, value: str, indent: str) -> str:
    """The value in lines of at most LINE_LIMIT characters, the later ones behind a tab."""
    shown, column = f"{name} = ", len(indent) + len(name) + 3
    for place, part in enumerate(value.split(",")):
        piece = ("," if place else "") + part
        if place and column + len(piece) >= LINE_LIMIT:
            shown, piece, column = f"{shown},\n\t", part, 8
        while column + len(piece) > LINE_LIMIT:
            room = LINE_LIMIT - column
            shown, piece, column = f"{shown}{piece[:room]}\n\t", piece[room:], 8
        shown += piece
        column += len(piece)
    return shown
