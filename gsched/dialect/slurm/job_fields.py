"""What sbatch's options mean for a job: their values, read and checked, as fields of a JobSpec.

Whether a queue, node, reservation or job of that name exists is not known here. Source: sbatch(1) of Slurm 22.05.
"""

from __future__ import annotations

import math
import posixpath
import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gsched.base.errors import BadRequest
from gsched.base.node_lists import expand_nodes
from gsched.base.patterns import MOST_WIDTH
from gsched.dialect.slurm.array_lists import ArrayList, parse_array
from gsched.dialect.slurm.dependencies import ElementOf, condition_of
from gsched.dialect.slurm.gnu_options import GivenOption, GnuWords
from gsched.dialect.slurm.job_shape import JobShape
from gsched.dialect.slurm.moments import parse_moment
from gsched.dialect.slurm.slurm_values import parse_count, parse_duration, parse_size_mib
from gsched.dialect.spec_values import MAX_TEXT, SpecValues, ValueContext, check_text
from gsched.resreq.parsing.gpu import parse_gpu
from gsched.resreq.parsing.syntax import merge

_FEATURE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:[&|][A-Za-z_][A-Za-z0-9_]*)*", re.ASCII)
_LICENSE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:[:=*]([1-9][0-9]{0,8}))?", re.ASCII)
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.\-]*", re.ASCII)
_SIGNAL = re.compile(r"(?:([RB]+):)?([A-Za-z0-9]{1,12})(?:@([0-9]{1,5}))?", re.ASCII)
_SIGNAL_S = 60
_MAILS: Mapping[str, SpecValues] = {
    "NONE": {},
    "BEGIN": {"notify_begin": True},
    "END": {"notify_end": True},
    "FAIL": {"notify_error": True},
    "ALL": {"notify_begin": True, "notify_end": True},
    "ARRAY_TASKS": {},
}

FIELDS: Mapping[str, tuple[str, ...]] = {
    "res_req": (
        "licenses",
        "tmp",
        "constraint",
        "exclude",
        "mem",
        "mem-per-cpu",
        "mem-per-gpu",
        "nodes",
        "ntasks-per-node",
    ),
    "slots": ("ntasks", "cpus-per-task", "nodes"),
    "gpu_req": ("gres", "gpus", "gpus-per-node", "gpus-per-task"),
    "queue": ("partition",),
    "hosts": ("nodelist",),
    "dependency": ("dependency",),
    "begin_at": ("begin",),
    "terminate_at": ("deadline",),
    "run_limit_s": ("time",),
    "priority": ("priority",),
    "reservation": ("reservation",),
    "project": ("account",),
    "exclusive": ("exclusive",),
    "indices": ("array",),
    "array_limit": ("array",),
    "name": ("job-name",),
    "description": ("comment",),
    "output_file": ("output",),
    "error_file": ("error",),
    "input_file": ("input",),
    "mail_user": ("mail-user",),
}
"""Which options set the fields that the master may find wrong."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the meaning of a value may hang on."""

    around: ValueContext
    user: str
    default_name: str
    element_of: ElementOf
    over: SpecValues = field(default_factory=dict)
    """Fields that count before all options: those that another command than sbatch was given."""


def fields_of(words: GnuWords, shape: JobShape, reading: Reading, *, has_files: bool = True) -> SpecValues:
    """The fields that the options set; of an option given twice the later counts. `has_files`: its output goes to
    files. Raises BadRequest.
    """
    values: SpecValues = {"slots": shape.slots, "name": reading.default_name, "queue": ""}
    if not words.has("ntasks", "nodes", "cpus-per-task", "ntasks-per-node", "nodelist"):
        values["defaulted"] = ("slots",)
    for given in {each.name: each for each in words.given}.values():
        try:
            check_text(given.value, "the value")
            values |= _READERS[given.name](given.value, reading) if given.name in _READERS else {}
        except BadRequest as error:
            text = error.text if error.text.startswith(given.place) else f"{given.place}: {error.text}"
            raise BadRequest(text) from None
    values |= _array(words.last("array")) | _requirement(words, shape) | _rerun(words)
    if "hosts" in values and shape.nodes > len(values["hosts"]):
        raise BadRequest(
            f"--nodelist: {len(values['hosts'])} nodes are named and {shape.nodes} asked for: name as many, or none"
        )
    values |= reading.over
    if "slots" in reading.over:
        values.pop("defaulted", None)
    if reading.over.get("indices"):
        values |= {"index_shift": 0, "array_limit": reading.over.get("array_limit", 0)}
    files = _files(words, values, reading) if has_files and not values.get("interactive") else {}
    return values | files | reading.over


def field_values(option: str, text: str, reading: Reading) -> SpecValues:
    """What one option of sbatch means, for those whose meaning hangs on no other. Raises BadRequest."""
    check_text(text, "the value")
    return _READERS[option](text, reading)


def nice_of(given: GivenOption) -> int:
    """How much less priority --nice asks for, 0 to 100; below 0 would be more, which only administrators may have in
    Slurm. Raises BadRequest.
    """
    found = re.fullmatch(r"(-?)([0-9]{1,10})", given.value or "100", re.ASCII)
    if found is None:
        raise BadRequest(f"{given.place}: Invalid nice value '{given.value[:40]}'")
    return 0 if found[1] else min(100, int(found[2]))


def _array(given: GivenOption | None) -> SpecValues:
    if given is None:
        return {}
    try:
        array: ArrayList = parse_array(given.value)
    except BadRequest as error:
        raise BadRequest(f"{given.place}: {error.text}") from None
    return {"indices": array.indices, "array_limit": array.limit, "index_shift": array.shift}


def named_nodes(words: GnuWords) -> int:
    """How many nodes --nodelist names: the job has all of them. Raises BadRequest."""
    given = words.last("nodelist")
    return len(set(_nodes(given))) if given is not None else 0


def _requirement(words: GnuWords, shape: JobShape) -> SpecValues:
    """-R and -gpu."""
    parts = list(shape.requirement)
    feature = words.last("constraint")
    if feature is not None:
        if not _FEATURE.fullmatch(feature.value):
            raise BadRequest(f"{feature.place}: '{feature.value[:40]}': names of resources with & or | between them")
        parts.append(f"select[{feature.value.replace('&', ' && ').replace('|', ' || ')}]")
    excluded = words.last("exclude")
    if excluded is not None:
        parts.append("select[" + " && ".join(f"hname!={name}" for name in _nodes(excluded)) + "]")
    parts += _licenses(words.last("licenses")) + _disk(words.last("tmp"))
    values: SpecValues = {"res_req": merge(parts)} if parts else {}
    if shape.gpu_requirement:
        parse_gpu(shape.gpu_requirement)
        values["gpu_req"] = shape.gpu_requirement
    return values


def _licenses(given: GivenOption | None) -> list[str]:
    """`matlab:2,comsol`: shared resources that the job holds. Which there are is the master's to say."""
    if given is None:
        return []
    found = [_LICENSE.fullmatch(part) for part in given.value.split(",")]
    if not all(found):
        raise BadRequest(f"{given.place}: '{given.value[:40]}' is not NAME[:COUNT],...: names of shared resources")
    return [f"rusage[{':'.join(f'{each[1]}={each[2] or 1}/job' for each in found if each is not None)}]"]


def _disk(given: GivenOption | None) -> list[str]:
    if given is None:
        return []
    try:
        return [f"select[maxtmp>={math.ceil(parse_size_mib(given.value))}]"]
    except BadRequest as error:
        raise BadRequest(f"{given.place}: {error.text}") from None


def _nodes(given: GivenOption) -> list[str]:
    try:
        names = expand_nodes(given.value)
    except BadRequest as error:
        raise BadRequest(f"{given.place}: {error.text}") from None
    wrong = next((name for name in names if not _NODE.fullmatch(name)), "")
    if wrong or not names:
        raise BadRequest(f"{given.place}: Invalid node name specified '{wrong[:40]}'")
    return names


def _rerun(words: GnuWords) -> SpecValues:
    """Of --requeue and --no-requeue the last."""
    last = next((each.name for each in reversed(words.given) if each.name in ("requeue", "no-requeue")), "")
    return {"rerunnable": last == "requeue"} if last else {}


def _files(words: GnuWords, values: SpecValues, reading: Reading) -> SpecValues:
    """Output, error and input: Slurm's patterns become gsched's."""
    mode = words.value("open-mode", "truncate")
    if mode not in ("append", "truncate"):
        raise BadRequest(f"--open-mode: '{mode[:40]}' is neither append nor truncate")
    default = "slurm-%A_%a.out" if values.get("indices") else "slurm-%j.out"
    found: SpecValues = {}
    for stream, text in (("output", words.value("output", default)), ("error", words.value("error"))):
        if text:
            found[f"{stream}_file"] = _pattern(f"--{stream}", text, values, reading)
            found[f"{stream}_overwrite"] = mode == "truncate"
    if words.has("input"):
        found["input_file"] = _pattern("--input", words.value("input"), values, reading)
    return found


_MAKES_PATTERN = ("J", "I", "i", "0", "%")


def _literal(text: str) -> str:
    """The text, of which nothing is filled in, whatever stands behind it."""
    return re.sub(r"%(?=[JIi0%]|$)", "%0%", text)


def _pattern(option: str, text: str, values: SpecValues, reading: Reading) -> str:
    """Slurm's pattern as gsched.base.patterns has it: %j, %J and %A are the number, %a is the index, %b its last digit,
    %N the first node, %x the name, %u the user; others are refused. Numbers may have a width; where there is a
    backslash nothing is filled in.

    The batch script is task 0 on node 0 of the step `batch`; of that step Slurm's %J, JOB.STEP, is the job's number.
    """
    if len(text) > MAX_TEXT:
        raise BadRequest(f"{option}: the path is longer than {MAX_TEXT} characters")
    if "\\" in text:
        return _literal(text.replace("\\", ""))
    is_shifted = bool(values.get("index_shift"))
    numbers = {"j": "J", "J": "J", "A": "J", "a": "i" if is_shifted else "I", "b": "c" if is_shifted else "b"}
    texts = {"x": str(values["name"]), "u": reading.user, "s": "batch"}

    def filled(found: re.Match[str]) -> str:
        width, letter = found[1].lstrip("0"), found[2]
        if letter in numbers:
            own = numbers[letter]
            plain = f"%{own}" if not width and own in "JIi" else f"%0{min(int(width or 0), MOST_WIDTH) or ''}{own}"
            # an element's own number
            return f"{plain}_%{numbers['a']}" if letter in "jJ" and values.get("indices") else plain
        if letter in ("t", "n"):
            return "0".zfill(min(int(width or 0), MOST_WIDTH))
        if letter == "N":
            return "%0N"
        if letter == "%":  # a percent sign, and what would make a pattern of it
            return "%0%" if found.string[found.end() : found.end() + 1] in _MAKES_PATTERN else "%"
        if letter not in texts:
            known = ", ".join(f"%{each}" for each in "jJAabNnstux")
            raise BadRequest(f"{option}: {found[0][:20]} is not supported: {known} are filled in")
        return _literal(texts[letter])

    return re.sub("%([0-9]*)(.?)", filled, text, flags=re.ASCII | re.DOTALL)


def _time(text: str, reading: Reading) -> SpecValues:
    return {"run_limit_s": parse_duration(text)}


def _begin(text: str, reading: Reading) -> SpecValues:
    return {"begin_at": parse_moment(text, reading.around.now, reading.around.zone)}


def _deadline(text: str, reading: Reading) -> SpecValues:
    at = parse_moment(text, reading.around.now, reading.around.zone)
    if at <= reading.around.now:
        raise BadRequest(f"'{text[:40]}' is over already")
    return {"terminate_at": at}


def _directory(text: str, reading: Reading) -> SpecValues:
    if not text.strip() or len(text) > MAX_TEXT:
        raise BadRequest(f"a path of 1 to {MAX_TEXT} characters is needed")
    return {"specified_cwd": posixpath.normpath(posixpath.join(reading.around.cwd, text))}


def _hosts(text: str, reading: Reading) -> SpecValues:
    return {"hosts": tuple(dict.fromkeys(_nodes(GivenOption("nodelist", text, "--nodelist"))))}


def _dependency(text: str, reading: Reading) -> SpecValues:
    return {"dependency": condition_of(text, reading.element_of)}


def _invalid(text: str, reading: Reading) -> SpecValues:
    if text not in ("yes", "no"):
        raise BadRequest(f"'{text[:40]}' is neither yes nor no")
    return {"end_orphan": text == "yes"}


def _signal(text: str, reading: Reading) -> SpecValues:
    found = _SIGNAL.fullmatch(text)
    try:
        name = found[2].upper().removeprefix("SIG") if found is not None else ""
        number = signal.Signals(int(name)) if name.isdigit() else signal.Signals[f"SIG{name}"]
    except (KeyError, ValueError):
        raise BadRequest(f"Invalid signal '{text[:40]}'") from None
    assert found is not None
    return {
        "warning_signal": number.name.removeprefix("SIG"),
        "warning_s": int(found[3] or _SIGNAL_S) or _SIGNAL_S,
        "warns_main": "B" in (found[1] or ""),
    }


def _mail(text: str, reading: Reading) -> SpecValues:
    found: SpecValues = {}
    for word in text.upper().split(","):
        if word not in _MAILS:
            raise BadRequest(f"'{word[:40]}' is not supported: NONE, BEGIN, END, FAIL, ALL and ARRAY_TASKS are")
        found |= _MAILS[word]
    return found


def _clusters(text: str, reading: Reading) -> SpecValues:
    if text != "all":
        raise BadRequest(f"'{text[:40]}': there is one cluster")
    return {}


def _priority(text: str, reading: Reading) -> SpecValues:
    """0 holds the job; TOP would put it before all others, which only administrators may say in Slurm."""
    if text.upper() == "TOP":
        return {}
    return {"priority": number} if (number := parse_count(text, 0)) else {"hold": True}


def _plain(field: str) -> Callable[[str, Reading], SpecValues]:
    def read(text: str, reading: Reading) -> SpecValues:
        if not text.strip() or len(text) > MAX_TEXT:
            raise BadRequest(f"a value of 1 to {MAX_TEXT} characters is needed")
        return {field: text.strip()}

    return read


def _qos(text: str, reading: Reading) -> SpecValues:
    if text.lower() != "normal":
        raise BadRequest("there is no QOS: queues (--partition) say what jobs may do")
    return {}


_READERS: Mapping[str, Callable[[str, Reading], SpecValues]] = {
    "job-name": _plain("name"),
    "partition": lambda text, reading: {"queue": " ".join(text.replace(",", " ").split()), "queue_named": True},
    "time": _time,
    "chdir": _directory,
    "account": _plain("project"),
    "comment": _plain("description"),
    "clusters": _clusters,
    "qos": _qos,
    "exclusive": lambda text, reading: {"exclusive": True},
    "nodelist": _hosts,
    "dependency": _dependency,
    "kill-on-invalid-dep": _invalid,
    "begin": _begin,
    "deadline": _deadline,
    "hold": lambda text, reading: {"hold": True},
    "priority": _priority,
    "reservation": _plain("reservation"),
    "signal": _signal,
    "mail-type": _mail,
    "mail-user": _plain("mail_user"),
}
