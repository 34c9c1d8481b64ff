"""-o, -e, -j, -k and -R of qsub: where a job's output goes, as gsched's patterns say it.

Source: qsub(1B) of OpenPBS 23, "Managing output and error files".
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from gsched.base.errors import BadRequest
from gsched.dialect.pbs.pbs_values import default_name
from gsched.dialect.slurm.gnu_options import GnuWords
from gsched.dialect.spec_values import MAX_TEXT, SpecValues

_NOWHERE = "/dev/null"
_HERE = ("localhost", "127.0.0.1")
_LETTERS = {"o": "output_file", "e": "error_file"}


@dataclass(frozen=True, slots=True)
class FilePlaces:
    """What the files' names hang on."""

    cwd: str
    home: str
    host: str
    name: str
    """Of the job."""
    is_array: bool
    shift: int
    """Of an array's indices."""
    server: str


def files_of(words: GnuWords, places: FilePlaces) -> SpecValues:
    """Fields of a JobSpec. Raises BadRequest."""
    kept = _kept(words)
    found = {field: _path(words, letter, kept, places) for letter, field in _LETTERS.items()}
    joined = words.value("j", "n")
    if joined not in ("oe", "eo", "n"):
        raise BadRequest(f"illegal -j value: '{joined[:40]}' is neither oe, eo nor n")
    if joined == "eo":
        found["output_file"] = found["error_file"]
    if joined != "n":
        found["error_file"] = ""
    removed = words.value("R")
    if not re.fullmatch("(?:oe|eo|o|e)?", removed):
        raise BadRequest(f"illegal -R value: '{removed[:40]}' is neither o, e nor oe")
    for letter in removed:
        if found[_LETTERS[letter]]:
            found[_LETTERS[letter]] = _NOWHERE
    values: SpecValues = dict(found)
    values |= {f"{field.removesuffix('_file')}_overwrite": True for field, path in found.items() if path}
    return values


def _kept(words: GnuWords) -> str:
    """The letters of -k that keep a file in the home directory; with d it goes to its place at once, as always here."""
    text = words.value("k", "n")
    if text != "n" and not re.fullmatch("[oed]{1,3}", text):
        raise BadRequest(f"illegal -k value: '{text[:40]}' is neither n nor some of o, e and d")
    return "" if text == "n" or "d" in text else text


def _path(words: GnuWords, letter: str, kept: str, places: FilePlaces) -> str:
    name = default_name(letter, places.name, places.is_array, places.shift)
    if letter in kept:
        return posixpath.join(places.home, name)
    given = words.last(letter)
    if given is None:
        return posixpath.join(places.cwd, name)
    path = _filled(_on_this_host(given.value, letter, places), letter, places)
    if not path.strip() or len(path) > MAX_TEXT:
        raise BadRequest(f"illegal -{letter} value: a path of 1 to {MAX_TEXT} characters is needed")
    path = posixpath.join(places.cwd, path)
    return f"{path}{name}" if path.endswith("/") else path


def _on_this_host(text: str, letter: str, places: FilePlaces) -> str:
    """The path of `HOST:PATH`, where that is the host of submission: jobs write files themselves."""
    host, colon, path = text.partition(":")
    if not colon or "/" in host:
        return text
    names = (places.host, places.host.partition(".")[0], *_HERE)
    if host in names or host.partition(".")[0] in names or not host:
        return path
    raise BadRequest(
        f"illegal -{letter} value: '{host[:60]}': files of other hosts are not written: say the path, in a directory "
        "that the job's hosts share"
    )


def _filled(path: str, letter: str, places: FilePlaces) -> str:
    """The variables and marks that PBS fills in: ^array_index^, $PBS_JOBID and its kin."""
    index = ("%i" if places.shift else "%I") if places.is_array else "0"
    number = f"%J[{index}]" if places.is_array else "%J"
    known = {
        "PBS_JOBID": f"{number}.{places.server}",
        "PBS_JOBNAME": places.name,
        "PBS_ARRAY_INDEX": index,
        "PBS_ARRAYID": index,
        "PBS_O_WORKDIR": places.cwd,
        "PBS_O_HOME": places.home,
        "PBS_O_HOST": places.host,
        "HOME": places.home,
    }

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name not in known:
            raise BadRequest(f"illegal -{letter} value: ${name[:40]} is not filled in: {', '.join(known)} are")
        return known[name]

    return re.sub(r"\$(?:\{(\w+)\}|(\w+))", value, path.replace("^array_index^", index))
