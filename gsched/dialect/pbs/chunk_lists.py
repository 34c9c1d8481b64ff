"""`-l select=` and Torque's `-l nodes=`: chunks of a job, read and checked, and shared out again over its hosts.

A CPU of a chunk is a slot. Source: pbs_resources(7B) of OpenPBS 23; qsub(1B) of Torque 6, "Requesting Resources".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gsched.base.errors import BadRequest
from gsched.dialect.pbs.pbs_values import parse_count, parse_size_mib
from gsched.model.jobs.job import MOST_SLOTS

MOST_KINDS = 100
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,58}", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.\-]{0,254}", re.ASCII)
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]*", re.ASCII)
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")
_WITHOUT = {
    "arch": "select[type==...] of gsub -R says it",
    "vmem": "mem= is what is reserved; -l vmem= is a limit of the whole job",
    "pmem": "mem= is what is reserved",
    "nchunk": "say the number before the first colon",
    "mics": "there are none",
    "nmics": "there are none",
    "vntype": "say host=",
    "netwins": "say it with a resource of hosts, NAME=True",
}


@dataclass(frozen=True, slots=True)
class Chunk:
    """Chunks of one kind: how many, and what each of them has on its host."""

    count: int = 1
    ncpus: int = 1
    mpiprocs: int = 1
    ompthreads: int = 0
    """0: as many as it has CPUs."""
    ngpus: int = 0
    model: str = ""
    """Of the GPUs; empty: any."""
    mem_mib: int = 0
    """0: nothing is reserved."""
    conditions: tuple[str, ...] = ()
    """What its host must be, as a requirement says it."""

    @property
    def slots(self) -> int:
        """Of all chunks of this kind."""
        return self.count * self.ncpus

    @property
    def threads(self) -> int:
        """OMP_NUM_THREADS."""
        return self.ompthreads or self.ncpus


def parse_select(text: str) -> tuple[Chunk, ...]:
    """The kinds of chunks of `4:ncpus=68:mpiprocs=1+1:ngpus=2`. Raises BadRequest."""
    return _checked([_chunk(part) for part in _parts(text)])


def parse_nodes(text: str) -> tuple[Chunk, ...]:
    """Those of Torque's `2:ppn=4:gpus=1+n13:ppn=2`; a host is named, or a number of hosts. Raises BadRequest."""
    return _checked([_node(part) for part in _parts(text)])


def _parts(text: str) -> list[str]:
    parts = text.split("+")
    if len(parts) > MOST_KINDS:
        raise BadRequest(f"more than {MOST_KINDS} kinds of chunks")
    return parts


def _checked(chunks: Sequence[Chunk]) -> tuple[Chunk, ...]:
    if sum(chunk.slots for chunk in chunks) > MOST_SLOTS:
        raise BadRequest(f"more than {MOST_SLOTS} CPUs")
    if len({chunk.model for chunk in chunks if chunk.ngpus}) > 1:
        raise BadRequest("one model of GPUs for all chunks")
    return tuple(chunks)


def _chunk(text: str) -> Chunk:
    first, *rest = text.split(":")
    chunk = Chunk()
    if "=" in first:
        rest = [first, *rest]
    else:
        chunk = replace(chunk, count=_count("the number of chunks", first.strip()))
    seen: set[str] = set()
    for item in rest:
        name, equals, value = (each.strip() for each in item.partition("="))
        if not equals or not _NAME.fullmatch(name) or not value:
            raise BadRequest(f"'{item[:40]}' is not NAME=VALUE")
        if name in seen:
            raise BadRequest(f"{name} is given twice in a chunk")
        seen.add(name)
        chunk = _with(chunk, name, value)
    if "mpiprocs" not in seen:
        chunk = replace(chunk, mpiprocs=1)
    return chunk


def _with(chunk: Chunk, name: str, value: str) -> Chunk:
    if name in _WITHOUT:
        raise BadRequest(f"{name}= is not supported: {_WITHOUT[name]}")
    if name in ("ncpus", "ompthreads"):
        count = _count(f"{name}=", value)
        return replace(chunk, ncpus=count) if name == "ncpus" else replace(chunk, ompthreads=count)
    if name in ("mpiprocs", "ngpus", "naccelerators"):
        count = _count(f"{name}=", value, 0)
        return replace(chunk, mpiprocs=count) if name == "mpiprocs" else replace(chunk, ngpus=count)
    if name == "mem":
        return replace(chunk, mem_mib=parse_size_mib(value))
    if name in ("gpu_model", "accelerator_model"):
        if not _MODEL.fullmatch(value):
            raise BadRequest(f"{name}='{value[:40]}' is no model of GPUs")
        return replace(chunk, model=value)
    if name in ("host", "vnode"):
        return _of_host(chunk, value)
    if name == "software":
        return _of_resource(chunk, value, "software=")
    if value.lower() in _TRUE:
        return _of_resource(chunk, name, "")
    if value.lower() in _FALSE:
        return replace(chunk, conditions=(*chunk.conditions, f"!{name}"))
    raise BadRequest(
        f"{name}= is not supported: ncpus, mpiprocs, ompthreads, ngpus, gpu_model, mem, host, vnode, software and "
        "resources of hosts, NAME=True, are"
    )


def _of_host(chunk: Chunk, name: str) -> Chunk:
    if not _HOST.fullmatch(name):
        raise BadRequest(f"'{name[:40]}' is no name of a host")
    return replace(chunk, conditions=(*chunk.conditions, f"hname=={name}"))


def _of_resource(chunk: Chunk, name: str, what: str) -> Chunk:
    if not _NAME.fullmatch(name):
        raise BadRequest(f"{what}'{name[:40]}' is no name of a resource")
    return replace(chunk, conditions=(*chunk.conditions, name))


def _node(text: str) -> Chunk:
    first, *rest = (part.strip() for part in text.split(":"))
    chunk = Chunk()
    if first.isdigit():
        chunk = replace(chunk, count=_count("the number of nodes", first))
    elif "=" in first:
        rest = [first, *rest]
    else:
        chunk = _of_host(chunk, first)
    seen: set[str] = set()
    for item in rest:
        name, equals, value = item.partition("=")
        if name in seen:
            raise BadRequest(f"{name[:40]} is given twice for a node")
        seen.add(name)
        chunk = _with_property(chunk, name, value if equals else None)
    return chunk


def _with_property(chunk: Chunk, name: str, value: str | None) -> Chunk:
    if name == "ppn" and value is not None:
        count = _count("ppn=", value)
        return replace(chunk, ncpus=count, mpiprocs=count)
    if name == "gpus" and value is not None:
        return replace(chunk, ngpus=_count("gpus=", value, 0))
    if name in ("ncpus", "mem", "ngpus") and value is not None:
        return _with(chunk, name, value)
    if name in ("shared", "exclusive_process", "exclusive_thread", "reseterr", "default", "exclusive"):
        raise BadRequest(f":{name} is not supported: GPUs are for this job alone; gsub -gpu 'mode=...' says more")
    if value is None:
        return _of_resource(chunk, name, "")
    raise BadRequest(f"{name[:40]}= is not supported: ppn, gpus, and names of resources and hosts are")


def _count(what: str, text: str, least: int = 1) -> int:
    try:
        return parse_count(text, least)
    except BadRequest as error:
        raise BadRequest(f"{what} {error.text}") from None


def text_of(chunks: Iterable[Chunk]) -> str:
    """The chunks as `select=` names them."""
    return "+".join(
        f"{chunk.count}:ncpus={chunk.ncpus}:mpiprocs={chunk.mpiprocs}"
        + (f":ngpus={chunk.ngpus}" if chunk.ngpus else "")
        + (f":mem={chunk.mem_mib}mb" if chunk.mem_mib else "")
        for chunk in chunks
    )


def processes_of(chunks: Sequence[Chunk], slots: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """(host, MPI processes of a chunk there), for chunks that were given so many slots on hosts, in their order."""
    left = [chunk.count for chunk in chunks]
    for host, given in slots.items():
        room = given
        for place, chunk in enumerate(chunks):
            while left[place] and chunk.ncpus <= room:
                left[place] -= 1
                room -= chunk.ncpus
                yield host, chunk.mpiprocs
