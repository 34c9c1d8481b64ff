"""Inventories: JSON files that stand in for the GPUs of a host where there are none.

An inventory is a list of objects, one per GPU; every key but the braces is optional:

    [{"uuid": "GPU-...", "index": 0, "model": "Tesla K80", "memory_mib": 11441, "compute_mode": "exclusive_process",
      "minor": 0, "pci_bus_id": "00000000:04:00.0", "used_mib": 0, "utilization_percent": 0, "temperature_c": 30,
      "numa": 0, "links": ["GPU-..."], "problem": "", "reserved_mib": 600, "memory_utilization_percent": 0,
      "power_w": 60, "ecc_errors": 0, "ecc_corrected": 0, "throttle": 4, "pstate": 8,
      "processes": [{"pid": 4711, "user": "ann", "used_mib": 500, "kind": "C", "name": "python"}],
      "mig": true, "mig_devices": [{"uuid": "MIG-...", "profile": "1g.10gb", "gpu_instance": 7, "compute_instance": 0,
      "memory_mib": 9856}], "fault": "", "xids": [94], "slowdown_c": 90}]

`fault` says that the GPU has failed; `xids` are the errors that the driver has told of so far, and a probe tells those
that are added. Without `processes` nobody knows who is on the GPU; an empty list says that nobody is.

Files are replaced whole, never written in place, so that a probe never reads half of one. Nothing here may invent a
GPU that the file does not list, or drop one that it does.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from gsched.base.errors import BadRequest, Conflict, GschedError
from gsched.model.hosts.host import ComputeMode, Gpu, GpuXid
from gsched.probe.simulated.inventory_entry import (
    MOST_TOLD,
    RANGES,
    InventoryEntry,
    checked,
    one_line,
    parse_mode,
    simulated_gpu,
    within,
    written,
)

MAX_GPUS = 1024
"""Most GPUs of one simulated host."""

MAX_BYTES = 4 * 1024 * 1024
"""Most bytes of an inventory file."""

_SPEC = re.compile(r"([0-9]+)(?::([a-z_]+))?", re.ASCII)


def parse_sim_spec(text: str, host: str) -> tuple[Gpu, ...]:
    """GPUs that `--sim-gpus` asks for on `host`: `4`, `4:exclusive_process`, `4:shared`, or an inventory file's path.

    Raises BadRequest for anything else, for more than MAX_GPUS, and for an inventory that cannot be used.
    """
    spec = _SPEC.fullmatch(text)
    if spec is None:
        if "/" in text or text.endswith(".json"):
            try:
                return read_inventory(text, host)
            except GschedError as problem:
                raise BadRequest(problem.text) from None
        raise BadRequest(
            f"'{text}' says no GPUs: wanted is a number, NUMBER:MODE such as 4:exclusive_process, or the path of an "
            "inventory file (NAME.json)"
        )
    digits, word = spec.groups()
    mode = parse_mode(word) if word else ComputeMode.DEFAULT
    if len(digits) > 9 or int(digits) > MAX_GPUS:
        raise BadRequest(f"'{text}' asks for more than {MAX_GPUS} GPUs on one host")
    return tuple(simulated_gpu(host, index, mode) for index in range(int(digits)))


def read_inventory(path: str | os.PathLike[str], host: str) -> tuple[Gpu, ...]:
    """GPUs of an inventory file in the order of their index; `host` is what missing UUIDs are made from.

    Raises BadRequest naming file and position: missing, unreadable, no JSON, a wrong or unknown value, a repeated GPU.
    """
    return _gpus(_read(path), os.fspath(path), host)


@functools.lru_cache(maxsize=2)  # a private cluster reads the same file every second
def _gpus(data: bytes, path: str, host: str) -> tuple[Gpu, ...]:
    entries = _parse(data, path)
    gpus = []
    for place, entry in enumerate(entries):
        try:
            gpus.append(checked(entry, place, host))
        except BadRequest as problem:
            raise BadRequest(f"{path}: entry {place + 1}: {problem.text}") from None
    _refuse_repeats(path, "index", ((place, gpu.index) for place, gpu in enumerate(gpus)))
    _refuse_repeats(path, "uuid", ((place, uuid) for place, gpu in enumerate(gpus) for uuid in _uuids(gpu)))
    return tuple(sorted(gpus, key=lambda gpu: gpu.index))


def write_inventory(path: str | os.PathLike[str], gpus: Iterable[Gpu]) -> None:
    """Replace or make an inventory file in one step; its folder is made when it is missing. Raises Conflict."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target):
            _replace(target, gpus)
    except OSError as problem:
        raise Conflict(f"{path}: cannot be written: {problem.strerror or problem}") from None


def change(
    path: str | os.PathLike[str], host: str, indexes: Sequence[int], settings: Mapping[str, str]
) -> tuple[Gpu, ...]:
    """Change some GPUs of an inventory file, as `gsched sim-gpu 0-3 compute_mode=default` asks; gives all GPUs after.

    Keys: compute_mode, problem and fault (empty: there is none), xid (an error that the driver tells of), and what a
    probe reads: used_mib, utilization_percent,
    memory_utilization_percent, temperature_c, power_w, ecc_errors, ecc_corrected, throttle, pstate (`-`: not known).
    Writers wait for each other. Raises BadRequest naming an unknown index, key or value; then nothing is changed.
    Raises Conflict when the file cannot be written.
    """
    changes = dict(_setting(name, text) for name, text in settings.items())
    try:
        with _locked(Path(path)):
            gpus = read_inventory(path, host)
            known = {gpu.index for gpu in gpus}
            if missing := [index for index in indexes if index not in known]:
                listed = ", ".join(map(str, sorted(known))) or "none"
                raise BadRequest(f"{path}: there is no GPU {missing[0]} (known: {listed})")
            chosen = set(indexes)
            gpus = tuple(_changed(gpu, changes) if gpu.index in chosen else gpu for gpu in gpus)
            _replace(Path(path), gpus)
            return gpus
    except OSError as problem:
        raise Conflict(f"{path}: cannot be changed: {problem.strerror or problem}") from None


def _changed(gpu: Gpu, changes: Mapping[str, object]) -> Gpu:
    """What was told stays told: a new error is added to the others."""
    told = changes.get("xids")
    if isinstance(told, tuple):
        changes = {**changes, "xids": (*gpu.xids, *told)[-MOST_TOLD:]}
    return msgspec.structs.replace(gpu, **changes)


# Reading


def _read(path: str | os.PathLike[str]) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as problem:
        raise BadRequest(f"{path}: cannot be read: {problem.strerror or problem}") from None
    if len(data) > MAX_BYTES:
        raise BadRequest(f"{path}: longer than {MAX_BYTES} bytes")
    return data


def _parse(data: bytes, path: str | os.PathLike[str]) -> list[InventoryEntry]:
    try:
        raw = json.loads(data)
    except json.JSONDecodeError as problem:
        raise BadRequest(f"{path}:{problem.lineno}:{problem.colno}: no JSON: {problem.msg}") from None
    except (UnicodeDecodeError, RecursionError) as problem:
        raise BadRequest(f"{path}: no JSON: {type(problem).__name__}") from None
    if not isinstance(raw, list):
        raise BadRequest(f"{path}: a list of GPUs is wanted")
    if len(raw) > MAX_GPUS:
        raise BadRequest(f"{path}: lists more than {MAX_GPUS} GPUs")
    entries = []
    for place, item in enumerate(raw):
        try:
            entries.append(msgspec.convert(item, InventoryEntry))
        except msgspec.ValidationError as problem:
            text = str(problem).replace(" - at `$.", " - at `")
            raise BadRequest(f"{path}: entry {place + 1}: {text}") from None
    return entries


def _uuids(gpu: Gpu) -> list[str]:
    """Its own, and those of its parts."""
    return [gpu.uuid, *(part.uuid for part in gpu.mig_devices)]


def _refuse_repeats(path: str | os.PathLike[str], what: str, values: Iterable[tuple[int, object]]) -> None:
    """`values`: each with the number of its entry."""
    seen = set()
    for place, value in values:
        if value in seen:
            raise BadRequest(f"{path}: entry {place + 1}: {what} {value} is listed twice")
        seen.add(value)


# Changing


def _number(name: str, text: str) -> int | None:
    if text == "-":
        return None
    if re.fullmatch(r"-?[0-9]{1,15}", text, re.ASCII) is None:
        raise BadRequest(f"{name}={text}: a whole number or - is wanted")
    within(name, int(text), *RANGES[name])
    return int(text)


def _xid(name: str, text: str) -> tuple[GpuXid, ...]:
    if re.fullmatch(r"[0-9]{1,6}", text, re.ASCII) is None:
        raise BadRequest(f"{name}={text}: the number of an XID is wanted, 79 say")
    return (GpuXid(number=int(text)),)


_OTHER_READINGS = ("memory_utilization_percent", "power_w", "ecc_errors", "ecc_corrected", "throttle", "pstate")
_SETTABLE: dict[str, tuple[str, Callable[[str, str], object]]] = {
    "compute_mode": ("mode", lambda name, text: parse_mode(text)),
    "used_mib": ("used_mib", _number),
    "utilization_percent": ("utilization_percent", _number),
    "temperature_c": ("temperature_c", _number),
    **{name: (name, _number) for name in _OTHER_READINGS},
    "problem": ("problem", one_line),
    "fault": ("fault", one_line),
    "xid": ("xids", _xid),
}


def _setting(name: str, text: str) -> tuple[str, object]:
    """(field of Gpu, value) of one KEY=VALUE."""
    if name not in _SETTABLE:
        raise BadRequest(f"'{name}' cannot be set for a simulated GPU (known: {', '.join(_SETTABLE)})")
    field, read = _SETTABLE[name]
    return field, read(name, text)


@contextlib.contextmanager
def _locked(target: Path) -> Iterator[None]:
    """Hold off other writers of `target`. The lock is a file beside it, because the target itself is replaced."""
    descriptor = os.open(target.parent / f".{target.name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(target: Path, gpus: Iterable[Gpu]) -> None:
    objects = []
    for gpu in gpus:
        objects.append(json.dumps(written(gpu), ensure_ascii=False))
    text = "[\n" + ",\n".join(objects) + "\n]\n"
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            _keep_owner(file.fileno(), target)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _keep_owner(descriptor: int, target: Path) -> None:
    """Let the new file belong to whom the old one did: root must not take a user's inventory away."""
    try:
        before = target.stat()
    except FileNotFoundError:
        os.fchmod(descriptor, 0o644)
        return
    os.fchmod(descriptor, before.st_mode & 0o777)
    with contextlib.suppress(PermissionError):
        os.fchown(descriptor, before.st_uid, before.st_gid)
