"""What a job of PBS is given of the environment it was submitted from: -V, -v, PBS_O_*, and what its chunks say.

Where it runs its agent tells it. Source: qsub(1B) of OpenPBS 23, "Environment variables".
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence

from gsched.base.errors import BadRequest
from gsched.dialect.pbs.chunk_lists import Chunk
from gsched.dialect.pbs.pbs_values import split_quoted
from gsched.dialect.slurm.gnu_options import GivenOption, GnuWords
from gsched.model.jobs.job import JobSpec

_ORIGINAL = ("HOME", "LANG", "LOGNAME", "PATH", "MAIL", "SHELL", "TZ")
"""Told as PBS_O_NAME."""
_WITHOUT_V = ("HOME", "LOGNAME", "USER", "SHELL", "LANG", "TZ", "PATH", "MAIL")
"""What every job has of the environment; the login files of its shell add to it."""
_OF_JOBS = re.compile("PBS_.*|NCPUS|OMP_NUM_THREADS", re.ASCII)
"""Variables that tell of a job: those of the job that submits are not the new one's."""
_NAME = re.compile(r"[^\s=]+")
_SHELLS = ("sh", "bash", "dash", "ksh", "zsh", "csh", "tcsh", "fish")


def shell_of(env: Mapping[str, str]) -> str:
    """The user's, which runs a script that names none."""
    shell = env.get("SHELL", "")
    is_plain = shell.startswith("/") and not any(char.isspace() for char in shell) and shell.isascii()
    return shell if is_plain and posixpath.basename(shell) in _SHELLS else "/bin/sh"


def login_shell_of(env: Mapping[str, str]) -> str:
    """The shell whose login files a job reads that was submitted without -V."""
    shell = shell_of(env)
    return shell if posixpath.basename(shell) != "fish" and len(shell) < 58 else "/bin/sh"


def environment_of(
    words: GnuWords, env: Mapping[str, str], spec: JobSpec, home: str, chunks: Sequence[Chunk], host: str
) -> dict[str, str]:
    """All that is submitted. Raises BadRequest for a -v that is none."""
    mine = {name: value for name, value in env.items() if not _OF_JOBS.fullmatch(name)}
    kept = dict(mine) if words.has("V") else {name: mine[name] for name in mine if _is_basic(name)}
    kept |= {f"PBS_O_{name}": env[name] for name in _ORIGINAL if name in env}
    kept |= {"PBS_O_HOME": env.get("HOME", home), "PBS_O_WORKDIR": spec.cwd, "PBS_O_HOST": host}
    kept["PBS_O_SYSTEM"] = "Linux"
    first = chunks[0]
    kept |= {"NCPUS": str(first.threads), "OMP_NUM_THREADS": str(first.threads)}
    for option in words.given:
        if option.name == "v":
            kept |= _variables(option, env)
    return kept


def _is_basic(name: str) -> bool:
    return name in _WITHOUT_V or name.startswith("LC_")


def _variables(option: GivenOption, env: Mapping[str, str]) -> dict[str, str]:
    """Of `NAME,NAME=value,NAME='a,b'`."""
    found: dict[str, str] = {}
    try:
        for item in split_quoted(option.value):
            name, equals, value = item.strip().partition("=")
            if not _NAME.fullmatch(name):
                raise BadRequest(f"'{item[:40]}' is not NAME or NAME=VALUE")
            if equals:
                found[name] = value
            elif name in env:
                found[name] = env[name]
    except BadRequest as error:
        raise BadRequest(f"{option.place}: illegal -v value: {error.text}") from None
    return found
