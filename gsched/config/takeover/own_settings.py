"""What the new files must say otherwise than LSF's: where gsched keeps what it writes, and what LSF takes for granted.

Each change stands in the file with what LSF's file said. Nothing here is refused; that is the readers' business.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gsched.base.envdir import MASTER_LISTS
from gsched.config.files.lsf_conf import LSB_FOLDER
from gsched.config.takeover.edited_file import EditedFile, Statement
from gsched.model.config import Params

_DEFAULTS = """
# Where a parameter is not set, gsched's default is not always LSF's. With these lines (without their #) it is:
#Begin Parameters
{lines}
#End Parameters"""
_OTHER_DEFAULTS = {
    "JOB_ACCEPT_INTERVAL": "1",
    "CPU_TIME_FACTOR": "0.7",
    "RUN_TIME_FACTOR": "0.7",
    "RUN_JOB_FACTOR": "3",
    "GPU_RUN_TIME_FACTOR": "0",
    "ENABLE_GPU_HIST_RUN_TIME": "N",
}
"""Of lsb.params: what counts in LSF where they are not set."""


@dataclass(frozen=True, slots=True)
class Folders:
    """Where the new cluster keeps what it writes: none of LSF's own folders, which go when LSF is removed."""

    state_dir: str = "/var/lib/gsched"
    log_dir: str = "/var/log/gsched"
    run_dir: str = ""
    """Of sockets; empty: gsched's default."""
    spool_dir: str = ""

    @classmethod
    def below(cls, base: str) -> Folders:
        """All of them in one folder."""
        return cls(*(os.path.join(base, name) for name in ("state", "log", "run", "spool")))


def set_own(files: Mapping[str, EditedFile], cluster: str, conf_dir: str, folders: Folders) -> None:
    """Make the changes that do not depend on what the readers say."""
    conf = files["lsf.conf"]
    every = "all files are read from the new folder"
    own = "gsched keeps it in a folder of its own"
    _set(conf, "LSF_CONFDIR", conf_dir, every)
    _set(conf, "LSB_CONFDIR", os.path.join(conf_dir, LSB_FOLDER), every, is_needed=False)
    _set(conf, "LSF_ENVDIR", conf_dir, every, is_needed=False)
    _set(conf, "LSB_SHAREDIR", folders.state_dir, own)
    _set(conf, "LSF_LOGDIR", folders.log_dir, own)
    for name, folder in (("GSCHED_RUNDIR", folders.run_dir), ("GSCHED_SPOOLDIR", folders.spool_dir)):
        if folder:
            conf.added.append(f"{name}={_quoted(folder)}")
    if _values(conf, "LSF_UNIT_FOR_LIMITS") == []:
        conf.added += ["# LSF's unit of sizes where it is not set.", "LSF_UNIT_FOR_LIMITS=KB"]
    _one_master(conf)
    _offer_defaults(files)


def _one_master(conf: EditedFile) -> None:
    """Of several masters the first: the others need a store that all of them reach."""
    for statement in (each for name in MASTER_LISTS for each in _values(conf, name)):
        names = statement.value.strip("\"'").split()
        if len(names) > 1 and _values(conf, "GSCHED_STORE") == []:
            statement.instead = f"{statement.key}={names[0]}"
            why = "lead when all of them reach a store in PostgreSQL (GSCHED_STORE)"
            statement.because = f"{names[0]} alone leads; {' '.join(names[1:])} could {why}"
            statement.is_partial = True


def _offer_defaults(files: Mapping[str, EditedFile]) -> None:
    """LSF's defaults, for whoever wants them."""
    params = files.get("lsb.params")
    if params is None:
        return
    unset = {name: value for name, value in _OTHER_DEFAULTS.items() if not list(_set_in(files, "lsb.params", name))}
    if unset:
        lines = "\n".join(f"#{name} = {value}" for name, value in unset.items())
        params.added += _DEFAULTS.format(lines=lines).split("\n")


def add_default_queue(files: dict[str, EditedFile]) -> None:
    """Where DEFAULT_QUEUE is not set, and there is no queue of gsched's default name: the queue `default`, which LSF
    would take, else the first.
    """
    queues = [each.value for each in _set_in(files, "lsb.queues", "QUEUE_NAME") if not each.is_out]
    (default,) = Params().default_queues
    is_set = any(not each.is_out for each in _set_in(files, "lsb.params", "DEFAULT_QUEUE"))
    params = files.setdefault("lsb.params", EditedFile("lsb.params", "lsb.params", ""))
    if is_set or not queues or default in queues or any("DEFAULT_QUEUE" in line for line in params.added):
        return
    name = "default" if "default" in queues else queues[0]
    params.added += ["", "# No DEFAULT_QUEUE was set.", "Begin Parameters", f"DEFAULT_QUEUE = {name}", "End Parameters"]


def _set_in(files: Mapping[str, EditedFile], file: str, name: str) -> Iterator[Statement]:
    """Lines that set it, also those of files that are included (anywhere)."""
    for each in files.values():
        if each.name == file or "/" in each.name:
            yield from (found for found in each.statements if found.kind == "value" and found.key.upper() == name)


def _values(file: EditedFile, name: str) -> list[Statement]:
    return [each for each in file.statements if each.kind == "value" and each.key == name]


def _set(conf: EditedFile, name: str, value: str, because: str, *, is_needed: bool = True) -> None:
    found = _values(conf, name)
    for statement in found:
        statement.instead, statement.because = f"{name}={_quoted(value)}", f"now {value}: {because}"
    if not found and is_needed:
        conf.added.append(f"{name}={_quoted(value)}")


def _quoted(value: str) -> str:
    return f'"{value}"' if set(value) & set(" \t#'") else value
