"""`-l` of qsub: `select=2:ncpus=4,walltime=1:00:00`, and what its resources mean for a job.

What the command line says of a resource takes the place of what the script says. Source: qsub(1B) and pbs_resources(7B)
of OpenPBS 23; qsub(1B) of Torque 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gsched.base.errors import BadRequest
from gsched.dialect.pbs.chunk_lists import Chunk, parse_nodes, parse_select
from gsched.dialect.pbs.chunk_placement import ChunkPlacement, parse_place, shape_of
from gsched.dialect.pbs.pbs_values import parse_count, parse_duration, parse_size_mib, split_quoted
from gsched.dialect.slurm.gnu_options import GivenOption

if TYPE_CHECKING:
    from gsched.dialect.spec_values import SpecValues

_SHAPES = ("select", "nodes")
_OF_CHUNK = {"ncpus": "ncpus", "ngpus": "ngpus", "gpus": "ngpus", "naccelerators": "ngpus", "mem": "mem"}
_OF_CHUNK |= dict.fromkeys(
    ("mpiprocs", "ompthreads", "host", "vnode", "software", "gpu_model", "accelerator_model"), ""
)
"""Resources of a job without select= -> what they are in a chunk; empty: the same."""
_OTHERS = ("place", "procs", "walltime", "cput", "vmem", "file")
RESOURCES_REFUSED = {
    "pmem": "say mem=",
    "pvmem": "say vmem=",
    "pcput": "say cput=",
    "arch": "gsub -R 'select[type==...]' says it",
    "opsys": "gsub -R 'select[type==...]' says it",
    "nice": "a queue's NICE says it",
    "min_walltime": "say walltime=",
    "max_walltime": "say walltime=",
    "preempt_targets": "a queue's PREEMPTION says it",
    "eoe": "there are no other operating environments",
    "aoe": "there are no other operating environments",
    "other": "say what it stands for in the script",
    "nodect": "it is counted from select= or nodes=",
    "feature": "say select=1:NAME=True",
    "qos": "queues (-q) say what jobs may do",
    "prologue": "gsub -E names a command that runs before the job",
    "epilogue": "gsub -Ep names a command that runs after the job",
    "trl": "say select= or nodes=",
    "start_time": "say -a",
    "accelerator_memory": "gsub -gpu 'gmem=...' says it",
}
"""Resources of -l that are known and not taken -> what to say instead."""
LIMIT_NAMES = frozenset({"walltime", "cput", "vmem", "file"})
"""Those that say how much it may use rather than what it has."""
_NO_SELECT = '"-lresource=" cannot be used with "select" or "place", resource is: '


@dataclass(frozen=True, slots=True)
class AskedResources:
    """What -l said, worked out."""

    values: SpecValues
    """Fields of a JobSpec."""
    chunks: tuple[Chunk, ...]
    said: tuple[str, ...]
    """Each resource as it was given, `walltime=04:00:00`."""
    is_sized: bool
    """Whether anything was said of how much it is."""


def read_resources(given: Iterable[GivenOption]) -> AskedResources:
    """Of all -l, those of the script first. Raises BadRequest naming the one that is wrong."""
    items = _merged(given)
    try:
        return _meaning({name: value for name, (value, _) in items.items()})
    except BadRequest as error:
        raise BadRequest(f"illegal -l value: {error.text}") from None


def _merged(given: Iterable[GivenOption]) -> dict[str, tuple[str, bool]]:
    """Name -> value, and whether it stands in the script. Raises BadRequest for one that is given twice."""
    found: dict[str, tuple[str, bool]] = {}
    for option in given:
        for name, value in _items(option):
            known = found.get(name)
            if known is not None and known[1] is bool(option.line) and known[0] != value:
                raise BadRequest(f"{option.place}: illegal -l value: {name}={value[:40]}: {name} is given twice")
            if name in _SHAPES and not option.line:  # the other shape of the script has no say any more
                for shape in (*_SHAPES, "place", *_OF_CHUNK):
                    if shape in found and found[shape][1]:
                        del found[shape]
            found[name] = (value, bool(option.line))
    return found


def _items(option: GivenOption) -> list[tuple[str, str]]:
    items: list[tuple[str, str]] = []
    try:
        for part in split_quoted(option.value):
            name, equals, value = (each.strip() for each in part.partition("="))
            if not equals or not name or not value:
                raise BadRequest(f"'{part[:40]}' is not NAME=VALUE")
            items.append((name, value))
    except BadRequest as error:
        raise BadRequest(f"{option.place}: illegal -l value: {error.text}") from None
    return items


def _meaning(items: Mapping[str, str]) -> AskedResources:
    for name in items:
        _check_known(name)
    shapes = [name for name in _SHAPES if name in items]
    if len(shapes) > 1:
        raise BadRequest(_NO_SELECT + "nodes")
    plain = [name for name in items if name in _OF_CHUNK]
    chunks, place = _chunks(items, shapes, plain)
    if "place" in items:
        place = parse_place(items["place"])
    shape = shape_of(chunks, place.arrangement)
    values: SpecValues = {"slots": shape.slots}
    if shape.requirement:
        values["res_req"] = shape.requirement
    if shape.gpu_requirement:
        values["gpu_req"] = shape.gpu_requirement
    if place.exclusive:
        values["exclusive"] = True
    said = tuple(f"{name}={value}" for name, value in items.items())
    sized = bool(shapes or "ncpus" in items or "procs" in items)
    return AskedResources(values | _limits(items), chunks, said, sized)


def _check_known(name: str) -> None:
    if name in RESOURCES_REFUSED:
        raise BadRequest(f"{name}= is not supported: {RESOURCES_REFUSED[name]}")
    if name not in (*_SHAPES, *_OF_CHUNK, *_OTHERS):
        raise BadRequest(f"Unknown resource: {name[:40]}; resources of hosts stand in select=1:NAME=True")


def _chunks(items: Mapping[str, str], shapes: list[str], plain: list[str]) -> tuple[tuple[Chunk, ...], ChunkPlacement]:
    if "select" in shapes:
        if plain:
            raise BadRequest(_NO_SELECT + plain[0])
        return parse_select(items["select"]), ChunkPlacement()
    if "nodes" in shapes:
        chunks = parse_nodes(items["nodes"])
        return _with_whole(chunks, items), ChunkPlacement("scatter")
    if "procs" in items:
        if "ncpus" in items:
            raise BadRequest("procs= and ncpus= say the same")
        return (replace(parse_select("1")[0], count=parse_count(items["procs"])),), ChunkPlacement()
    words = [f"{_OF_CHUNK[name] or name}={items[name]}" for name in plain]
    return parse_select(":".join(["1", *words])), ChunkPlacement("pack")


def _with_whole(chunks: tuple[Chunk, ...], items: Mapping[str, str]) -> tuple[Chunk, ...]:
    """Torque's nodes= with others beside it: GPUs are on each node, memory is the whole job's and shared out evenly."""
    others = [name for name in items if name in _OF_CHUNK and name not in ("mem", "ncpus", "gpus", "ngpus")]
    if others:
        raise BadRequest(_NO_SELECT + others[0])
    gpus = items.get("gpus", items.get("ngpus"))
    if gpus is not None:
        chunks = tuple(replace(chunk, ngpus=parse_count(gpus, 0)) for chunk in chunks)
    if "mem" not in items:
        return chunks
    nodes = sum(chunk.count for chunk in chunks)
    each = -(-parse_size_mib(items["mem"]) // nodes)
    return tuple(replace(chunk, mem_mib=chunk.mem_mib or each) for chunk in chunks)


def _limits(items: Mapping[str, str]) -> SpecValues:
    values: SpecValues = {}
    limits: dict[str, float] = {}
    if "walltime" in items:
        seconds = _positive("walltime", parse_duration(items["walltime"]))
        values["run_limit_s"] = seconds
    if "cput" in items:
        limits["CPULIMIT"] = float(_positive("cput", parse_duration(items["cput"])))
    if "vmem" in items:
        limits["SWAPLIMIT"] = float(_positive("vmem", parse_size_mib(items["vmem"])))
    if "file" in items:
        limits["FILELIMIT"] = float(_positive("file", parse_size_mib(items["file"])) * 1024)
    return values | ({"limits": limits} if limits else {})


def _positive(name: str, value: int) -> int:
    if not value:
        raise BadRequest(f"{name}=0 would let nothing run")
    return value
