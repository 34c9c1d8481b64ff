"""How much a job asks for and how it lies on hosts, taken from the requirement that a reader has made or found.

Only what another dialect can say is understood; all else is kept as text, to be told of.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gsched.base.errors import BadRequest
from gsched.base.units import parse_mib
from gsched.model.jobs.job import JobSpec

_SECTION = re.compile(r"([a-z]+)\[([^\[\]]*)\]", re.ASCII)
_TERM = re.compile(r"([0-9]+)\*\{(.*)\}", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_GPUS = re.compile(r"([0-9]+)(/task|/host)?", re.ASCII)
_AMOUNT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=([0-9.]+)([A-Za-z]*)(/[a-z]+)?", re.ASCII)


@dataclass(slots=True)
class AskedShape:
    """Numbers of slots, GPUs and MiB; 0 where nothing was said."""

    slots: int
    one_host: bool = False
    per_host: int = 0
    block: int = 0
    """So many slots lie together."""
    host_gpus: int = 0
    slot_gpus: int = 0
    model: str = ""
    host_mib: int = 0
    slot_mib: int = 0
    features: list[str] = field(default_factory=list)
    """Resources that its hosts have: `big`, `!slow`, `a|b`."""
    named_hosts: list[str] = field(default_factory=list)
    excluded: list[str] = field(default_factory=list)
    tmp_mib: int = 0
    shared: list[tuple[str, int]] = field(default_factory=list)
    """(shared resource, how many the job holds)."""
    apart: bool = False
    """Its parts might have shared a host, and are now on a host each."""
    not_alone: bool = False
    """Others might use its GPUs, too."""
    left: list[str] = field(default_factory=list)
    """Of the requirement what was not understood."""
    left_gpu: list[str] = field(default_factory=list)
    """The same of the GPU requirement."""

    @property
    def hosts(self) -> int:
        """How many; 0: as it comes."""
        if self.one_host or self.slots == 1:
            return 1
        return -(-self.slots // self.per_host) if self.per_host else 0


def shape_of_spec(spec: JobSpec) -> AskedShape:
    """What the job asks for."""
    shape = AskedShape(spec.slots)
    text = spec.res_req
    if "{" in text:
        terms = [_TERM.fullmatch(part) for part in text.split(" + ")]
        first = terms[0]
        if first is not None and all(term is not None and term[0] == first[0] for term in terms):
            shape.per_host, shape.apart, text = int(first[1]), len(terms) > 1, first[2]
            shape.one_host = len(terms) == 1 and "hosts=1" in text
        else:
            shape.left.append(text)
            text = ""
    _read_sections(shape, text)
    if spec.gpu_req:
        _read_gpus(shape, spec.gpu_req.split(":"), "num")
    return shape


def _read_sections(shape: AskedShape, text: str) -> None:
    for found in _SECTION.finditer(text):
        name, body = found[1], found[2]
        if name == "span":
            _read_span(shape, body)
        elif name == "rusage":
            _read_amounts(shape, body)
        elif name == "select":
            for condition in _conditions(body):
                _read_condition(shape, condition)
        else:
            shape.left.append(found[0])
    if rest := _SECTION.sub("", text).strip():
        shape.left.append(rest)


def _conditions(text: str) -> list[str]:
    """Those that && joins; the parentheses of merged requirements are taken off where they hold nothing together."""
    found: list[str] = []
    for part in re.split(r"&&(?![^()]*\))", text):  # outside of parentheses; deeper ones stay text to be told of
        bare = part.strip()
        inner = bare[1:-1] if bare.startswith("(") and bare.endswith(")") else bare
        if inner != bare and not re.search(r"[()]", inner):
            found += [inner.strip()] if "||" in inner and "&&" in inner else _conditions(inner)
        else:
            found.append(bare)
    return found


def _read_span(shape: AskedShape, body: str) -> None:
    kind, _, count = body.replace(" ", "").partition("=")
    if shape.apart and kind == "hosts":
        return  # of each part
    if (kind, count) == ("hosts", "1"):
        shape.one_host = True
    elif kind == "ptile" and count.isdecimal() and int(count):
        shape.per_host = int(count)
    elif kind == "block" and count.isdecimal() and int(count):
        shape.block = int(count) if int(count) > 1 else 0
    else:
        shape.left.append(f"span[{body}]")


def _read_amounts(shape: AskedShape, body: str) -> None:
    if "ngpus_physical" in body:
        others = [item.strip() for item in body.split(",")]
        gpus = next(item for item in others if item.startswith("ngpus_physical"))
        _read_gpus(shape, gpus.split(":"), "ngpus_physical")
        body = ",".join(item for item in others if item != gpus)
    for item in filter(None, (part.strip() for part in re.split("[,:]", body))):
        amount = _AMOUNT.fullmatch(item)
        if amount is None:
            shape.left.append(f"rusage[{item}]")
            continue
        name, number, unit, per = amount[1], amount[2], amount[3], amount[4] or ""
        size = _mib(number + unit) if name == "mem" else None
        if size is not None and per in ("", "/host"):
            shape.host_mib = size
        elif size is not None and per == "/task":
            shape.slot_mib = size
        elif per == "/job" and not unit and float(number).is_integer():
            shape.shared.append((name, int(float(number))))
        else:
            shape.left.append(f"rusage[{item}]")


def _mib(text: str) -> int | None:
    try:
        return -int(-parse_mib(text) // 1)
    except BadRequest:
        return None


def _read_condition(shape: AskedShape, text: str) -> None:
    bare = text.removeprefix("!")
    names = [each.strip() for each in text.split("||")]
    if _NAME.fullmatch(bare):
        shape.features.append(text)
    elif len(names) > 1 and all(map(_NAME.fullmatch, names)):
        shape.features.append("|".join(names))
    elif found := re.fullmatch(r"hname\s*(==|!=)\s*'?([A-Za-z0-9.\-]+)'?", text, re.ASCII):
        (shape.named_hosts if found[1] == "==" else shape.excluded).append(found[2])
    elif found := re.fullmatch(r"maxtmp\s*>=\s*([0-9]+)", text, re.ASCII):
        shape.tmp_mib = int(found[1])
    elif text:
        shape.left.append(f"select[{text}]")


def _read_gpus(shape: AskedShape, parts: list[str], count_name: str) -> None:
    shape.not_alone = True
    for part in parts:
        name, _, value = part.strip().partition("=")
        found = _GPUS.fullmatch(value)
        if name == count_name and found is not None and found[2] == "/task":
            shape.slot_gpus = int(found[1])
        elif name == count_name and found is not None:
            shape.host_gpus = int(found[1])
        elif name == "gmodel" and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.\-]*", value, re.ASCII):
            shape.model = value
        elif (name == "j_exclusive" and value in ("yes", "y")) or part in ("mode=exclusive_process", "mps=no"):
            shape.not_alone = False
        elif part not in ("mode=shared", "j_exclusive=no"):
            shape.left_gpu.append(part)
