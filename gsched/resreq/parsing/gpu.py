"""The GPU requirement string (`-gpu`, GPU_REQ, LSB_GPU_REQ): text in, a frozen value out, and the merging of levels.

It must never know a host's devices or what a cluster allows: `unsupported_by_agent` only names what was asked for.
Source: bsub(1), option -gpu; lsb.queues(5), GPU_REQ. `share` is gsched's own: a part of one GPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from difflib import get_close_matches
from functools import lru_cache
from itertools import accumulate
from typing import Any, NoReturn

from gsched.resreq.amount_steps import at_start
from gsched.resreq.ast import Reservation
from gsched.resreq.parsing.lexer import one_line, read_number, refuse

BAD_GPU = "Bad GPU requirement"
MAX_LENGTH = 512
"""Characters of one GPU requirement."""
REMEMBERED = 256
"""Texts whose reading is kept: a requirement comes in, is judged and merged within moments, and is read once."""
RUSAGE_OPTIONS = frozenset({"gmodel", "gmem", "gtile", "glink", "nvlink", "gvendor", "mig", "j_exclusive"})
"""Options that may also stand behind a GPU resource in rusage[...]."""

_MODES = ("shared", "exclusive_process")
_MPS = ("yes", "no", "per_socket", "per_gpu")
_VENDORS = ("nvidia", "amd")
_MODEL = re.compile(r"[A-Za-z0-9_.#][A-Za-z0-9_./#-]*", re.ASCII)
_SIZED_MODEL = re.compile(r"(.*)[-#]([0-9.]+[KMGT]B?)", re.ASCII | re.IGNORECASE)
_BARE_MEMORY = re.compile(r"(?:^|:)\s*gmem\s*=\s*[0-9.]+(?=\s*(?::|$))", re.ASCII)
_WHOLE = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)
_TOO_MANY = re.compile(r"[1-9][0-9]{6,}", re.ASCII)
MOST_GPUS = 999_999
"""Of num=, as many digits as it takes."""
RANGE = ".."
"""Between the least and the most of num=."""
_NONE = "0"
"""num= of a job that is to have no GPU, whatever queue and cluster give to others."""
_MIG = re.compile(r"([1-7])(?:/([1-7]))?", re.ASCII)
_MIG_SIZES = (1, 2, 3, 4, 7)
_NO_MIG = {(4, 3), (7, 5), (7, 6)}
_ALWAYS = ("num", "mode", "mps", "j_exclusive", "gvendor")
_FIELDS = {"num": ("num", "most", "per"), "gmem": ("gmem_mib",)}
"""The fields of an option, where they are not one of its name."""
_PRINTED = (*_ALWAYS, "gmodel", "gmem", "gtile", "glink", "mig", "aff", "block", "gpack", "share")


@dataclass(frozen=True, slots=True)
class GpuRequirement:
    """What a job asks of GPUs. `num` GPUs per host, or per task where `per` says so; `gmem_mib` per GPU, in MiB. With
    `num` 0 it wants none, whatever others get unasked, and states nothing else. Of a range, `num=2..8`, `num` is the
    least and `most` the most that it may have of a host; without a range `most` is 0.

    `mode` is "shared" or "exclusive_process", which implies `j_exclusive`. `mps` is "no" or as given, such as
    "per_gpu,shared". `gtile` is GPUs per socket, "!" for evenly. `mig` is "GI" or "GI/CI". `share` is the part of one
    GPU that is asked for, more than 0 and at most 1; None for whole GPUs. `given` are the options that the text
    states or implies (share implies num, exclusive_process implies j_exclusive); it does not count in comparisons.
    """

    num: int = 1
    most: int = 0
    per: str = "host"
    mode: str = "shared"
    mps: str = "no"
    j_exclusive: bool = False
    gmem_mib: float | None = None
    gmodel: str = ""
    gtile: str = ""
    glink: bool = False
    mig: str = ""
    block: bool = False
    aff: bool = True
    gpack: bool = False
    gvendor: str = "nvidia"
    share: float | None = None
    given: frozenset[str] = field(default=frozenset(), compare=False)


class _Fault(Exception):
    """What is wrong with an option's value."""


def _fault(text: str) -> NoReturn:
    raise _Fault(text)


def _number(value: str) -> dict[str, Any]:
    count, slash, per = value.partition("/")
    least, dots, most = count.partition(RANGE)
    if any(map(_TOO_MANY.fullmatch, (least, most))):
        _fault(f"num= takes {MOST_GPUS} GPUs at most")
    if value != _NONE and not (_WHOLE.fullmatch(least) and (not dots or _WHOLE.fullmatch(most))):
        _fault(
            "num= takes a whole number of at least 1, a range such as 2..8, or 0 for none, with /task or /host behind"
            " it if need be"
        )
    if slash and per not in ("task", "host"):
        _fault(f"GPUs are counted per task or host, not per '{per}'")
    if dots and int(most) <= int(least):
        _fault("a range of GPUs goes from a number to a larger one, such as 2..8")
    if dots and per == "task":
        _fault("a range of GPUs is counted per host")
    return {"num": int(least), "most": int(most) if dots else 0, "per": per or "host"}


def _one_of(key: str, choices: tuple[str, ...]) -> Callable[[str], dict[str, Any]]:
    def read(value: str) -> dict[str, Any]:
        return {key: value} if value in choices else _fault(f"{key}= takes {' or '.join(choices)}")

    return read


def _flag(key: str) -> Callable[[str], dict[str, Any]]:
    def read(value: str) -> dict[str, Any]:
        return {key: value == "yes"} if value in ("yes", "no") else _fault(f"{key}= takes yes or no")

    return read


def _mps(value: str) -> dict[str, Any]:
    kind, *extras = value.split(",")
    if kind not in _MPS:
        _fault("mps= takes yes, no, per_socket or per_gpu, with ,shared and ,nocvd behind it if need be")
    if len(set(extras)) < len(extras) or not set(extras) <= {"shared", "nocvd"} or (extras and kind == "no"):
        _fault(f"mps={kind} takes {'nothing' if kind == 'no' else ',shared and ,nocvd'} behind it")
    return {"mps": ",".join([kind, *sorted(extras, reverse=True)])}


def _memory(value: str) -> dict[str, Any]:
    size = read_number(value)
    if size is None or size.value <= 0:
        _fault("gmem= takes a size such as 500, 500M or 16G")
    return {"gmem_mib": size.value}


def _model(value: str) -> dict[str, Any]:
    if not _MODEL.fullmatch(value):
        _fault("gmodel= takes a model such as K80, TeslaV100_PCIE_32GB, K80-12G or K80#12G")
    return {"gmodel": value}


def _tile(value: str) -> dict[str, Any]:
    value = value.strip("'\"") if value in ("'!'", '"!"') else value
    if value != "!" and not _WHOLE.fullmatch(value):
        _fault("gtile= takes a whole number of at least 1, or '!'")
    return {"gtile": value}


def _slice(value: str) -> dict[str, Any]:
    found = _MIG.fullmatch(value)
    if found is None or int(found.group(1)) not in _MIG_SIZES:
        _fault("mig= takes the size of a GPU instance (1, 2, 3, 4 or 7), with /size of a compute instance behind it")
    instance, compute = int(found.group(1)), int(found.group(2) or 1)
    if compute > instance or (instance, compute) in _NO_MIG:
        _fault(f"a GPU instance of size {instance} has no compute instance of size {compute}")
    return {"mig": value}


def _share(value: str) -> dict[str, Any]:
    number = read_number(value)
    if number is None or number.has_unit or not 0 < number.value <= 1:
        _fault("share= takes a part of one GPU, more than 0 and at most 1, such as 0.25")
    return {"share": number.value}


_READERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "num": _number,
    "mode": _one_of("mode", _MODES),
    "mps": _mps,
    "j_exclusive": _flag("j_exclusive"),
    "gvendor": _one_of("gvendor", _VENDORS),
    "gmodel": _model,
    "gmem": _memory,
    "gtile": _tile,
    "glink": _flag("glink"),
    "nvlink": _flag("glink"),
    "mig": _slice,
    "aff": _flag("aff"),
    "block": _flag("block"),
    "gpack": _flag("gpack"),
    "share": _share,
}


NONE_ALONE = "num=0 asks for no GPU, and stands alone"


def asks_for_none(text: str) -> bool:
    """Whether that is `num=0`. Raises RequirementError."""
    asked = parse_gpu(text) if text else None
    return asked is not None and asked.num == 0


def check_option(key: str, value: str) -> str:
    """What is wrong with `value` for the option `key`, one of RUSAGE_OPTIONS; empty if nothing is."""
    try:
        _READERS[key](value)
    except _Fault as fault:
        return f"{fault}, not '{one_line(value)}'"
    return ""


@lru_cache(maxsize=REMEMBERED)
def parse_gpu(text: str) -> GpuRequirement | None:
    """The GPU requirement that `text` states; None for `-`, which takes the levels below as they are.

    Raises RequirementError of the kind "Bad GPU requirement" with the position in `text`.
    """
    if text.strip() == "-":
        return None
    if len(text) > MAX_LENGTH:
        _refuse(f"the text has {len(text)} characters, {MAX_LENGTH} are allowed", text[:60] + "...", 0)
    values: dict[str, Any] = {}
    positions: dict[str, int] = {}
    start = 0
    for option in text.split(":"):
        position = start + len(option) - len(option.lstrip())
        start += len(option) + 1
        key, values_read = _option(option.strip(), text, position)
        if key in positions:
            _refuse(f"{key}= is given twice", text, position)
        positions[key] = position
        values |= values_read
    return _checked(values, positions, text)


def with_unit(text: str, unit: str) -> str:
    """`text` with `unit` (a letter, `K` to `Z`) behind a gmem= that has none. In MiB it stays as it is."""
    return text if unit == "M" else _BARE_MEMORY.sub(rf"\g<0>{unit}B", text)


def _refuse(detail: str, text: str, position: int) -> NoReturn:
    refuse(detail, text, min(position, len(text)), BAD_GPU)


def _option(option: str, text: str, position: int) -> tuple[str, dict[str, Any]]:
    key, equals, value = (part.strip() for part in option.partition("="))
    if not option:
        _refuse("an option such as num=1 is wanted", text, position)
    if key not in _READERS:
        near = get_close_matches(key, _READERS, n=1)
        hint = f" (did you mean {near[0]}?)" if near else f"; these are: {', '.join(_PRINTED)}"
        _refuse(f"'{one_line(key)}' is not an option{hint}", text, position)
    if not equals:
        _refuse(f"'=' is wanted after {key}", text, position + len(option))
    try:
        return ("glink" if key == "nvlink" else key), _READERS[key](value)
    except _Fault as fault:
        found = f"'{one_line(value)}'" if value else "nothing"
        _refuse(f"{fault}, not {found}", text, position + len(option) - len(value))


def _checked(values: dict[str, Any], positions: dict[str, int], text: str) -> GpuRequirement:
    given = set(positions)
    if values.get("mode") == "exclusive_process":
        given.add("j_exclusive")
        values.setdefault("j_exclusive", True)
    if "share" in given:
        given.add("num")
    asked = GpuRequirement(**values, given=frozenset(given))
    exclusive = asked.mode == "exclusive_process"
    conflicts = [
        (asked.num == 0 and len(positions) > 1, "num", max(positions, key=positions.__getitem__), NONE_ALONE),
        (exclusive and not asked.j_exclusive, "mode", "j_exclusive", "exclusive_process implies j_exclusive=yes"),
        (exclusive and asked.gpack, "mode", "gpack", "gpack=yes is for mode=shared"),
        (exclusive and asked.gvendor == "amd", "mode", "gvendor", "AMD GPUs have no exclusive_process mode"),
        (asked.mps != "no" and asked.gvendor == "amd", "mps", "gvendor", "AMD GPUs have no MPS"),
        (bool(asked.mig) and asked.gvendor == "amd", "mig", "gvendor", "AMD GPUs have no MIG"),
        (
            bool(asked.mig) and exclusive,
            "mode",
            "mig",
            "a compute mode is that of a whole GPU; a part of one is had alone by j_exclusive=yes",
        ),
        (bool(asked.mig) and asked.glink, "glink", "mig", "parts of GPUs by MIG are not linked"),
    ]
    if asked.most:
        alone = f"num={asked.num}..{asked.most} takes whichever GPUs of a host are free"
        conflicts += [
            (key in given and bool(getattr(asked, key)), "num", key, f"{alone}: it does not go with {key}=")
            for key in ("share", "mig", "gtile", "glink")
        ]
    if asked.share is not None:
        alone = f"share={asked.share:g} is a part of one GPU"
        conflicts += [
            (asked.num != 1, "share", "num", f"{alone}: num= is 1"),
            (exclusive, "share", "mode", f"{alone} that others share: mode= is shared"),
            (asked.j_exclusive, "share", "j_exclusive", f"{alone} that others share: j_exclusive= is no"),
            (bool(asked.mig), "share", "mig", f"{alone}, and so is mig="),
        ]
    for holds, first, second, detail in conflicts:
        if holds:
            _refuse(detail, text, max(positions.get(first, 0), positions.get(second, 0)))
    return asked


def _printed_option(asked: GpuRequirement, key: str) -> str:
    match key:
        case "num":
            most = f"{RANGE}{asked.most}" if asked.most else ""
            return f"num={asked.num}{most}{'/task' if asked.per == 'task' else ''}"
        case "gmem":
            return f"gmem={print_size(asked.gmem_mib or 0.0)}"
        case "share":
            return f"share={_decimal(asked.share or 0.0)}"
        case _:
            value = getattr(asked, key)
            return f"{key}={('no', 'yes')[value] if isinstance(value, bool) else value}"


def _decimal(value: float) -> str:
    return f"{value:.0f}" if value.is_integer() else format(Decimal(repr(value)), "f")


def print_size(mib: float) -> str:
    """`16G` or `500M`, as gmem= takes it."""
    return f"{_decimal(mib / 1024)}G" if (mib / 1024).is_integer() else f"{_decimal(mib)}M"


def print_gpu(asked: GpuRequirement) -> str:
    """`asked` as LSF shows it, `num=1:mode=shared:mps=no:j_exclusive=no:gvendor=nvidia` and what differs from nothing.

    `parse_gpu` reads it back as an equal value.
    """
    plain = GpuRequirement()
    fields = {"gmem": "gmem_mib"}
    shown = [
        key
        for key in _PRINTED
        if key in _ALWAYS or getattr(asked, fields.get(key, key)) != getattr(plain, fields.get(key, key))
    ]
    return ":".join(_printed_option(asked, key) for key in shown)


def merge_gpu(*levels: GpuRequirement | None, per_option: bool) -> GpuRequirement:
    """The requirement of a job from its levels, the highest first (job, application, queue, cluster); None: unsaid.

    With `per_option` (GPU_REQ_MERGE=Y) each option comes from the highest level that gives it; otherwise the highest
    level's whole string counts. Raises RequirementError, with the merged text as its source, where options of
    different levels contradict each other.
    """
    said = [level for level in levels if level is not None]
    if not said:
        return GpuRequirement()
    if not per_option or len(said) == 1:
        return said[0]
    first = {key: level for level in reversed(said) for key in level.given}
    printed = {key: _printed_option(first[key], key) for key in _PRINTED if key in first}
    values = {name: getattr(level, name) for key, level in first.items() for name in _FIELDS.get(key, (key,))}
    ends = [0, *accumulate(len(text) + 1 for text in printed.values())]
    return _checked(values, dict(zip(printed, ends, strict=False)), ":".join(printed.values()))


def gpu_of(item: Reservation) -> GpuRequirement:
    """The GPU requirement that a GPU resource in rusage states by its amount and options, `ngpus_physical=2:gmem=1G`.

    Raises RequirementError for an amount that is not a whole number of at least 1.
    """
    most = at_start(item)
    amount = f"{most:.0f}" if most.is_integer() else item.text
    per = "/task" if item.method == "task" else ""
    asked = parse_gpu(":".join([f"num={amount}{per}", *(f"{key}={value}" for key, value in item.gpu_options)]))
    if asked is not None and asked.num == 0:
        _refuse("GPUs in rusage[] are a whole number of at least 1, not '0'", f"num={amount}", 0)
    return asked or GpuRequirement()


def unsupported_by_agent(asked: GpuRequirement) -> str:
    """Options that `asked` gives and no agent can provide yet, such as `block=yes`; empty if there are none.

    A job has one MPS daemon on a host for all of its GPUs there: of one GPU, each kind of mps= means the same.
    """
    missing = [
        _printed_option(asked, key)
        for key, is_asked in (
            ("mps", asked.mps.startswith("per_") and (max(asked.num, asked.most) > 1 or asked.per == "task")),
            ("gvendor", asked.gvendor == "amd"),
            ("block", asked.block),
        )
        if is_asked
    ]
    return ", ".join(missing)


def model_matches(gmodel: str, model: str, memory_mib: float) -> bool:
    """Whether a device of `model` (as its driver names it) with `memory_mib` is one that `gmodel` means.

    `gmodel` is a whole model name, or a part of one that begins with a word of it, in any case, with blanks left out
    and `/` and `-` as `_`: "Tesla V100-PCIE-32GB" is TeslaV100_PCIE_32GB, Tesla and V100. A size behind it, as in
    K80-12G or K80#12G, is the device's memory, give or take 8 % (what drivers report is less than what is sold); #12G
    alone means any model.
    """
    found = _SIZED_MODEL.fullmatch(gmodel)
    size = read_number(found.group(2)) if found else None
    if found is not None and size is not None:
        gmodel = found.group(1)
        if abs(memory_mib - size.value) > 0.08 * size.value:
            return False
    if not gmodel:
        return True
    words = [_plain(word) for word in model.split()]
    wanted = _plain("".join(gmodel.split()))
    runs = ("".join(words[i:j]) for i in range(len(words)) for j in range(i + 1, len(words) + 1))
    return any(run == wanted or run.startswith(wanted + "_") for run in runs)


def _plain(word: str) -> str:
    return word.replace("/", "_").replace("-", "_").lower()
