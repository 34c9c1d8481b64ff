"""How much a job of PBS asks for, and how it lies on hosts: chunks and place= as slots, requirement, GPU requirement.

Source: qsub(1B) and pbs_resources(7B) of OpenPBS 23.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gsched.base.errors import BadRequest
from gsched.dialect.pbs.chunk_lists import Chunk

MOST_TERMS = 8
"""So many chunks with GPUs may share hosts: each is a part of a compound requirement; more lie on a host each."""
_ARRANGEMENTS = ("free", "pack", "scatter", "vscatter")
_SHARINGS = {"shared": False, "excl": True, "exclhost": True}


@dataclass(frozen=True, slots=True)
class ChunkPlacement:
    """place=."""

    arrangement: str = "free"
    exclusive: bool = False


def parse_place(text: str) -> ChunkPlacement:
    """`scatter`, `pack:excl`, `free:shared` … Raises BadRequest."""
    arrangement, exclusive = "free", False
    for word in text.lower().split(":"):
        if word in _ARRANGEMENTS:
            arrangement = word.removeprefix("v")
        elif word in _SHARINGS:
            exclusive = _SHARINGS[word]
        elif word.startswith("group="):
            raise BadRequest("place=group= is not supported: gsub -R 'cu[type=...]' keeps a job within a unit of hosts")
        else:
            raise BadRequest(
                f"place={word[:40]} is not supported: {', '.join([*_ARRANGEMENTS, *_SHARINGS])} are, with : between"
            )
    return ChunkPlacement(arrangement, exclusive)


@dataclass(frozen=True, slots=True)
class PbsShape:
    """What chunks and their placement are for gsched."""

    slots: int
    requirement: str
    gpu_requirement: str


def shape_of(chunks: Sequence[Chunk], arrangement: str) -> PbsShape:
    """A simple requirement where one does, else a compound one."""
    if arrangement == "pack" and len(chunks) > 1:
        chunks = (_together(chunks),)
    slots = sum(chunk.slots for chunk in chunks)
    if len(chunks) == 1 and not _needs_parts(chunks[0], arrangement):
        return PbsShape(slots, *_simple(chunks[0], arrangement))
    terms = [
        (count, chunk)
        for chunk in chunks
        for count in ([1] * chunk.count if _needs_parts(chunk, arrangement) else [chunk.count])
    ]
    return PbsShape(slots, " + ".join(_term(chunk, count, arrangement) for count, chunk in terms), "")


def _together(chunks: Sequence[Chunk]) -> Chunk:
    """All of them as one, on one host."""
    return Chunk(
        count=1,
        ncpus=sum(chunk.slots for chunk in chunks),
        ngpus=sum(chunk.count * chunk.ngpus for chunk in chunks),
        model=next((chunk.model for chunk in chunks if chunk.model), ""),
        mem_mib=sum(chunk.count * chunk.mem_mib for chunk in chunks),
        conditions=tuple(dict.fromkeys(condition for chunk in chunks for condition in chunk.conditions)),
    )


def _needs_parts(chunk: Chunk, arrangement: str) -> bool:
    """Whether its GPUs can only be said chunk by chunk: they may share a host, and a slot has no whole GPU."""
    return arrangement == "free" and 1 < chunk.count <= MOST_TERMS and chunk.ngpus > 0 and chunk.ngpus % chunk.ncpus > 0


def _span(chunk: Chunk, count: int, arrangement: str) -> str:
    if count * chunk.ncpus == 1:
        return ""
    if count == 1 or arrangement == "pack":
        return "span[hosts=1]"
    if arrangement == "scatter" or chunk.ngpus % chunk.ncpus:
        return f"span[ptile={chunk.ncpus}]"
    return f"span[block={chunk.ncpus}]" if chunk.ncpus > 1 else ""


def _select(chunk: Chunk) -> str:
    return f"select[{' && '.join(chunk.conditions)}]" if chunk.conditions else ""


def _on_host(chunk: Chunk, count: int, span: str) -> int:
    """How many of its chunks a host has; 0: that is not known."""
    if "hosts=1" in span or count == 1:
        return count
    return 1 if "ptile" in span else 0


def _memory(chunk: Chunk, on_host: int) -> str:
    if not chunk.mem_mib:
        return ""
    if on_host:
        return f"mem={on_host * chunk.mem_mib}MB"
    return f"mem={math.ceil(chunk.mem_mib / chunk.ncpus)}MB/task"


def _gpus(chunk: Chunk, on_host: int) -> str:
    """How many, for the host or for each slot."""
    if not chunk.ngpus:
        return ""
    return str(on_host * chunk.ngpus) if on_host else f"{chunk.ngpus // chunk.ncpus}/task"


def _simple(chunk: Chunk, arrangement: str) -> tuple[str, str]:
    """(requirement, GPU requirement)."""
    span = _span(chunk, chunk.count, arrangement)
    on_host = _on_host(chunk, chunk.count, span)
    memory, gpus = _memory(chunk, on_host), _gpus(chunk, on_host)
    parts = [_select(chunk), span, f"rusage[{memory}]" if memory else ""]
    model = f":gmodel={chunk.model}" if chunk.model else ""
    return " ".join(filter(None, parts)), f"num={gpus}:j_exclusive=yes{model}" if gpus else ""


def _term(chunk: Chunk, count: int, arrangement: str) -> str:
    """A part of a compound requirement."""
    span = _span(chunk, count, arrangement)
    on_host = _on_host(chunk, count, span)
    memory, gpus = _memory(chunk, on_host), _gpus(chunk, on_host)
    model = f":gmodel={chunk.model}" if chunk.model else ""
    if gpus:
        amount, slash, per = gpus.partition("/")
        gpus = f"ngpus_physical={amount}{slash}{per}:j_exclusive=yes{model}"
    amounts = ", ".join(filter(None, (memory, gpus)))
    parts = [_select(chunk), span, f"rusage[{amounts}]" if amounts else ""]
    said = " ".join(filter(None, parts)) or "span[block=1]"  # braces are never empty
    return f"{count * chunk.ncpus}*{{{said}}}"
