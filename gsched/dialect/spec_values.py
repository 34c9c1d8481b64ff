"""What bsub's options mean for a job: each option's value, read and checked, as fields of a JobSpec.

Used alike for a submission (bsub) and a modification (bmod). Whether a queue, host, user group, reservation or job
of that name exists is not known here. Source: bsub(1) of LSF 10.1.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

from gsched.base.coded_text import coded
from gsched.base.errors import BadRequest
from gsched.base.indices import BAD_INDEX, parse_indices
from gsched.base.patterns import counted_from
from gsched.base.units import unit_letter
from gsched.dialect.bsub_options import NOTED
from gsched.dialect.host_lists import ReadHostFile, no_host_file, read_host_file, read_hosts, requirement_of
from gsched.dialect.job_limits import LIMITS, read_limit, read_minutes
from gsched.dialect.notify import ReadNotifyFile, no_notify_file
from gsched.dialect.options import Option, Parsed, place, told, told_of
from gsched.dialect.service_options import read_service, read_service_users
from gsched.dialect.times import BAD_TIME, parse_time
from gsched.model.jobs.job import GROWS, MOST_SLOTS, JobPlot
from gsched.model.jobs.job_plot import check_plots, read_plot
from gsched.model.jobs.job_service import AUTO_PORT
from gsched.model.jobs.job_signal import read_save_signal
from gsched.model.jobs.requeue_exits import RESTART_CAUSES, fault_in
from gsched.model.queues.container import read_image, read_mount
from gsched.resreq.parsing.gpu import parse_gpu
from gsched.resreq.parsing.gpu import with_unit as gpu_with_unit
from gsched.resreq.parsing.syntax import merge, with_unit

MAX_SLOTS = MOST_SLOTS
MAX_INDEX = 2_147_483_646
"""Largest index of an array in LSF; the cluster's MAX_JOB_ARRAY_SIZE is the master's to check."""
MAX_TEXT = 4094
"""Longest name, description or path, as in LSF."""
MAX_GROUP = 512
MAX_SHELL = 58
MOST_ASKED_RESTARTS = 9999
"""Longest path of -L, as in LSF."""
_COPY = re.compile(r"(?P<local>\S+)\s+(?P<how>><|<>|<<|<|>)(?:\s+(?P<remote>\S+))?")
"""-f. Source: bsub(1)."""
_ARRAY = re.compile(r"(?P<name>[^\[\]]*)\[(?P<list>[^\[\]]*)\]\s*(?:%(?P<limit>[0-9]{1,9}))?", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueContext:
    """What the meaning of a value may hang on: the caller's directory, time (UTC seconds), zone, unit of sizes."""

    cwd: str
    now: float
    zone: tzinfo
    unit: str = "MB"
    """LSF_UNIT_FOR_LIMITS."""
    home: str = "/"
    """The caller's, for paths that begin with ~/."""
    notify_file: ReadNotifyFile = no_notify_file
    """Reads the caller's own file of notices."""
    host_file: ReadHostFile = no_host_file
    """Reads a file of -hostfile."""


SpecValues = dict[str, Any]
"""Field of JobSpec -> value."""
ValueReader = Callable[[str, ValueContext], SpecValues]


def spec_values(options: Parsed, around: ValueContext) -> SpecValues:
    """The fields that the options set; of an option given twice the later counts. Several -R and limits add up.

    Raises BadRequest naming the option that is wrong.
    """
    values: SpecValues = {}
    requirements: list[str] = []
    for name, value, line in options.placed():
        try:
            check_text(value, f"the value of -{name}")
            if name == "R":
                requirements.append(with_unit(value, unit_letter(around.unit)))
                merge(requirements[-1:])
            else:
                _set_value(values, name, value, around)
        except BadRequest as error:
            raise told(error, line) from None
    if options.has("nnodes"):
        with told_of(options.line("nnodes")):
            values["slots"], span = _spread(options.last("nnodes"), values.get("slots"), values.get("max_slots", 0))
        requirements += span
    if options.has("hostfile"):
        with told_of(options.line("hostfile")):
            values |= _hosts_of_file(options, around)
        requirements = [values["res_req"]]
    if len(requirements) == 1:
        values["res_req"] = requirements[0].strip()
    elif requirements:
        with told_of(options.line("R")):
            values["res_req"] = merge(requirements)
    begin, end = values.get("begin_at"), values.get("terminate_at")
    if begin is not None and end is not None and begin > end:
        with told_of(options.line("b", "t")):
            raise BadRequest("Start time is later than termination time")
    return values


def _hosts_of_file(options: Parsed, around: ValueContext) -> SpecValues:
    """-hostfile: so many slots on each host of the file, the first one first. Raises BadRequest."""
    clashing = next((name for name in ("n", "m", "R", "nnodes") if options.has(name)), "")
    if clashing:
        raise BadRequest(f"options -hostfile and -{clashing} exclude each other: both say where the slots are")
    path = options.last("hostfile")
    hosts = read_host_file(path, around.host_file(path))
    return {
        "slots": sum(hosts.values()),
        "max_slots": 0,
        "hosts": tuple(hosts),
        "host_levels": (),
        "other_hosts": False,
        "first_hosts": (next(iter(hosts)),),
        "res_req": requirement_of(hosts),
    }


def _set_value(values: SpecValues, name: str, value: str, around: ValueContext) -> None:
    """What one option other than -R adds to the fields."""
    if name in LIMITS:
        limit = {LIMITS[name]: read_limit(name, value, around.unit)}
        values["limits"] = values.get("limits", {}) | limit
    elif name == "f":
        values["file_copies"] = (*values.get("file_copies", ()), _copy(value))
    elif name == "-container-mount":
        values["container_mounts"] = (*values.get("container_mounts", ()), _container_mount(value, around))
    elif name == "-plot":
        values["plots"] = _plots(values.get("plots", ()), value)
    elif name in READERS:
        new = READERS[name](value, around)
        notes = (*values.get("warnings", ()), *new.pop("warnings", ()))
        values |= new | ({"warnings": notes} if notes else {})


def check_warning(options: Parsed) -> None:
    """-wa and -wt mean something only together, and not beside --signal. Raises BadRequest."""
    if options.has("-signal") and options.has("wa", "wt"):
        with told_of(options.line("-signal")):
            raise BadRequest("options --signal and -wa exclude each other: both say which signal comes before the end")
    if options.has("wa") is not options.has("wt"):
        given, lacking = ("wa", "wt") if options.has("wa") else ("wt", "wa")
        with told_of(options.line(given)):
            raise BadRequest(f"option -{given} needs -{lacking} beside it")


INTERACTIVE = ("I", "Ip", "Is", "IS", "ISp", "ISs")
"""Options of interactive jobs. LSF's -IS kinds go through ssh; what is typed and shown is always as safe here."""
_NOT_INTERACTIVE = ("K", "o", "oo", "e", "eo", "N", "Ne")


def check_interactive(options: Parsed) -> None:
    """What cannot stand beside -I, -Ip and -Is. Raises BadRequest, in LSF's words where it has some."""
    kind = next((name for name in INTERACTIVE if options.has(name)), "")
    if not kind:
        return
    reasons = {"r": "Interactive job cannot be rerunnable"}
    has_terminal = kind not in ("I", "IS")
    reasons |= dict.fromkeys(
        ("i", "is"),
        "Input file not allowed with pseudo-terminal" if has_terminal else f"options -{kind} and -i exclude each other",
    )
    for name in _NOT_INTERACTIVE:
        told = f"options -{kind} and -{name} exclude each other: what an interactive job prints is shown"
        reasons.setdefault(name, told)
    other = next((name for name in reasons if options.has(name)), "J" if "[" in options.last("J") else "")
    if other:
        with told_of(options.line(other) or options.line(kind)):
            raise BadRequest(reasons.get(other, "a job array cannot be interactive"))


def check_text(value: str, what: str) -> str:
    """`value`, if it can be kept as text. Raises BadRequest for bytes that are not UTF-8, and for NUL."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise BadRequest(f"{what} is not UTF-8") from None
    if "\0" in value:
        raise BadRequest(f"{what} holds a NUL byte")
    return value


def _path(name: str, text: str) -> str:
    if not text.strip():
        raise BadRequest(f"option -{name} needs a path that is not empty")
    if len(text) > MAX_TEXT:
        raise BadRequest(f"the path given with -{name} is longer than {MAX_TEXT} characters")
    return text


def _file(name: str, field: str, *, overwrite: bool) -> ValueReader:
    return lambda text, around: {f"{field}_file": _path(name, text), f"{field}_overwrite": overwrite}


def _directory(name: str, field: str) -> ValueReader:
    """A folder; patterns such as %J stay in it until the job starts."""
    return lambda text, around: {field: counted_from(around.cwd, _path(name, text))}


def _word(name: str, field: str, what: str) -> ValueReader:
    """A value of one word."""

    def read(text: str, around: ValueContext) -> SpecValues:
        if len(text.split()) != 1 or len(text) > MAX_TEXT:
            raise BadRequest(f"option -{name} needs {what}, not '{text[:40]}'")
        return {field: text.strip()}

    return read


def _plain(field: str) -> ValueReader:
    return lambda text, around: {field: text}


def _constant(field: str, value: object) -> ValueReader:
    return lambda text, around: {field: value}


def _queue(text: str, around: ValueContext) -> SpecValues:
    names = text.split()
    if not names:
        raise BadRequest("option -q needs the name of a queue")
    return {"queue": " ".join(dict.fromkeys(names)), "queue_named": True}


def _name(text: str, around: ValueContext) -> SpecValues:
    if not text.strip():
        raise BadRequest("Bad job name: -J needs a name that is not empty")
    if len(text) > MAX_TEXT:
        raise BadRequest(f"Bad job name: it is longer than {MAX_TEXT} characters")
    if "[" not in text and "]" not in text:
        return {"name": text, "indices": "", "array_limit": 0}
    found = _ARRAY.fullmatch(text)
    if found is None:
        raise BadRequest(f"{BAD_INDEX}: '{text[:60]}' is not of the form NAME[INDICES] or NAME[INDICES]%LIMIT")
    if found["limit"] is not None and int(found["limit"]) == 0:
        raise BadRequest(f"-J '{text[:60]}': a limit of started elements is at least 1")
    indices = str(parse_indices(found["list"], MAX_INDEX))
    return {"name": found["name"].strip(), "indices": indices, "array_limit": int(found["limit"] or 0)}


def _description(text: str, around: ValueContext) -> SpecValues:
    if len(text) > MAX_TEXT:
        raise BadRequest(f"-Jd: the description is longer than {MAX_TEXT} characters")
    return {"description": text}


def _slots(text: str, around: ValueContext) -> SpecValues:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 2 or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise BadRequest(f"-n: '{text[:40]}' is not a number of slots")
    least, most = int(parts[0]), int(parts[-1])
    if not (1 <= least <= MAX_SLOTS and 1 <= most <= MAX_SLOTS):
        raise BadRequest(f"-n: '{text[:40]}' is not a number of slots from 1 to {MAX_SLOTS}")
    if most < least:
        raise BadRequest(f"-n: '{text[:40]}': the most slots are fewer than the least")
    return {"slots": least, "max_slots": most if most > least else 0}


def _spread(text: str, slots: int | None, most: int) -> tuple[int, list[str]]:
    """-nnodes: how many slots, and the requirement that puts them on so many hosts. `slots` and `most` are -n's."""
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= MAX_SLOTS):
        raise BadRequest(f"-nnodes: '{text[:40]}' is not a number of hosts from 1 to {MAX_SLOTS}")
    hosts = int(text)
    wanted = hosts if slots is None else slots
    each = -(-wanted // hosts)
    if most:
        raise BadRequest("-nnodes needs one number of slots, and -n gives a range")
    if -(-wanted // each) != hosts:
        raise BadRequest(f"-nnodes {hosts}: {wanted} slots (-n) cannot be spread evenly over {hosts} hosts")
    if hosts > 1:
        return wanted, [f"span[ptile={each}]"]
    return wanted, ["span[hosts=1]"] if wanted > 1 else []


def _hosts(text: str, around: ValueContext) -> SpecValues:
    asked = read_hosts(text)
    levels = tuple(asked.levels.values())
    return {
        "hosts": tuple(asked.levels),
        "host_levels": levels if any(levels) else (),
        "other_hosts": asked.others,
        "first_hosts": tuple(asked.first),
    }


def _minutes(name: str, field: str, what: str, *, may_be_none: bool = False) -> ValueReader:
    """`[hours:]minutes`, with `/HOST` behind it where LSF scales by that host's speed: it is not scaled here.

    `may_be_none`: 0 means that there is none.
    """

    def read(text: str, around: ValueContext) -> SpecValues:
        span, slash, host = text.partition("/")
        try:
            if slash and not host.strip():
                raise BadRequest(f"'{text[:40]}' names no host behind the /")
            seconds, is_rounded = read_minutes(span, what)
            if not seconds and not may_be_none:
                raise BadRequest(f"'{span}': {what} is at least one minute")
        except BadRequest as error:
            raise BadRequest(f"-{name}: {error.text}") from None
        notes = []
        if slash:
            notes.append(coded("warning.not_scaled", span))
        if is_rounded:
            notes.append(coded("warning.rounded_up", seconds // 60))
        if not seconds:
            notes.append(coded("warning.no_run_limit"))
        warnings = tuple(coded("warning.option", name, text, note) for note in notes)
        return {field: seconds or None} | ({"warnings": warnings} if warnings else {})

    return read


def _begin(text: str, around: ValueContext) -> SpecValues:
    return {"begin_at": parse_time(text, around.now, around.zone)}


def _end(text: str, around: ValueContext) -> SpecValues:
    at = parse_time(text, around.now, around.zone)
    if at <= around.now:
        raise BadRequest(f"{BAD_TIME}: -t '{text[:40]}' is over already")
    return {"terminate_at": at}


def _priority(text: str, around: ValueContext) -> SpecValues:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise BadRequest(f"Bad user priority: -sp '{text[:40]}' is not a number of at least 1")
    return {"priority": int(text)}


def _group(text: str, around: ValueContext) -> SpecValues:
    path = text.strip()
    if len(path) > MAX_GROUP:
        raise BadRequest(f"Bad job group name: it is longer than {MAX_GROUP} characters")
    if not path.startswith("/"):
        raise BadRequest(f"Bad job group name: -g '{path[:60]}' does not begin with /")
    if path != "/" and not all(part.strip() for part in path[1:].split("/")):
        raise BadRequest(f"Bad job group name: -g '{path[:60]}' has an empty part")
    return {"group": "" if path == "/" else path}


def _dependency(text: str, around: ValueContext) -> SpecValues:
    if not text.strip():
        raise BadRequest("Dependency condition syntax error: -w needs a condition that is not empty")
    return {"dependency": text.strip()}


def _gpus(text: str, around: ValueContext) -> SpecValues:
    parse_gpu(text)
    return {"gpu_req": gpu_with_unit(text.strip(), unit_letter(around.unit))}


def _requeue_values(text: str, around: ValueContext) -> SpecValues:
    """-Q: `[all] [~CODE ...] | [CODE ...]`, and EXCLUDE(CODES) once."""
    fault = fault_in(text)
    if fault is not None:
        where, most = ("-Q:", 40) if fault.is_word else ("-Q", 60)
        raise BadRequest(f"{where} '{fault.quoted[:most]}'{fault.complaint}")
    return {"requeue_exit_values": " ".join(text.split())}


def _command(name: str, field: str) -> ValueReader:
    def read(text: str, around: ValueContext) -> SpecValues:
        if not text.strip() or len(text) > MAX_TEXT:
            raise BadRequest(f"option -{name} needs a command of 1 to {MAX_TEXT} characters")
        return {field: text}

    return read


def _login_shell(text: str, around: ValueContext) -> SpecValues:
    if not text.startswith("/") or len(text) > MAX_SHELL:
        raise BadRequest(f"-L: '{text[:60]}' is not the absolute path of a shell (at most {MAX_SHELL} characters)")
    return {"login_shell": text}


def _mail_user(text: str, around: ValueContext) -> SpecValues:
    if len(text.split()) != 1 or text.startswith("-") or len(text) > MAX_TEXT:
        raise BadRequest(f"-u: '{text[:60]}' is not an address for mail")
    return {"mail_user": text.strip()}


def _idle_ok(text: str, around: ValueContext) -> SpecValues:
    if not text.strip():
        raise BadRequest("--gpu-idle-ok needs a reason that is not empty")
    if len(text) > MAX_TEXT:
        raise BadRequest(f"--gpu-idle-ok: the reason is longer than {MAX_TEXT} characters")
    return {"gpu_idle_ok": " ".join(text.split())}


def _save_signal(text: str, around: ValueContext) -> SpecValues:
    found = read_save_signal(text)
    if found is None:
        raise BadRequest(
            f"--signal: '{text[:40]}' is not of the form [B:]SIGNAL[@SECONDS] with a signal that a job can catch"
        )
    return {
        "warning_signal": found.name,
        "warning_s": found.seconds,
        "warns_main": found.main_only,
        "saves_on_signal": True,
    }


def _restart_on(text: str, around: ValueContext) -> SpecValues:
    causes = tuple(dict.fromkeys(each.strip().lower() for each in text.split(",")))
    for cause in causes:
        if cause not in RESTART_CAUSES:
            raise BadRequest(f"--restart-on: '{cause[:40]}' is not one of {', '.join(RESTART_CAUSES)}")
    return {"restart_on": causes}


def _max_restarts(text: str, around: ValueContext) -> SpecValues:
    if not re.fullmatch(r"[0-9]{1,4}", text.strip(), re.ASCII) or int(text) > MOST_ASKED_RESTARTS:
        raise BadRequest(f"--max-restarts: '{text[:40]}' is not a number from 0 to {MOST_ASKED_RESTARTS}")
    return {"max_restarts": int(text)}


def _container(text: str, around: ValueContext) -> SpecValues:
    try:
        return {"container": read_image(text, around.cwd)}
    except BadRequest as error:
        raise BadRequest(f"--container: {error.text}") from None


def _container_mount(text: str, around: ValueContext) -> str:
    try:
        return str(read_mount(text, around.cwd))
    except BadRequest as error:
        raise BadRequest(f"--container-mount: {error.text}") from None


def _copy(text: str) -> str:
    found = _COPY.fullmatch(text.strip())
    if found is None:
        raise BadRequest(f"-f: '{text[:60]}' is not of the form LOCAL OPERATOR [REMOTE] with > < << >< or <>")
    return f"{found['local']} {found['how']} {found['remote'] or found['local']}"


def _plots(before: tuple[JobPlot, ...], text: str) -> tuple[JobPlot, ...]:
    try:
        plots = (*before, read_plot(text))
        check_plots(plots)
    except BadRequest as error:
        raise BadRequest(f"--plot: {error.text}") from None
    return plots


def _warning_signal(text: str, around: ValueContext) -> SpecValues:
    name = text.strip().upper().removeprefix("SIG")
    if f"SIG{name}" not in signal.Signals.__members__:
        raise BadRequest(f"-wa: '{text[:40]}' is not the name of a signal; commands and CHKPNT are not supported")
    return {"warning_signal": name}


def _no_effect(option: Option) -> ValueReader:
    warning = coded("warning.no_effect", option.name, option.noted)
    return lambda text, around: {"warnings": (warning,)}


READERS: Mapping[str, ValueReader] = {
    **{option.name: _no_effect(option) for option in NOTED},
    "J": _name,
    "-gpu-idle-ok": _idle_ok,
    "-signal": _save_signal,
    "-restart-on": _restart_on,
    "-max-restarts": _max_restarts,
    "-container": _container,
    "-service": lambda text, around: {"service": read_service(text)},
    "-service-users": lambda text, around: {"service_users": read_service_users(text)},
    "-notebook": _constant("service", AUTO_PORT),
    "gpu-idle-ok": _idle_ok,
    "Jd": _description,
    "q": _queue,
    "n": _slots,
    "gpu": _gpus,
    "m": _hosts,
    "w": _dependency,
    "b": _begin,
    "t": _end,
    "W": _minutes("W", "run_limit_s", "a run limit", may_be_none=True),
    "We": _minutes("We", "estimate_s", "an estimate"),
    "sp": _priority,
    "g": _group,
    "G": _word("G", "user_group", "the name of a user group"),
    "U": _word("U", "reservation", "the name of a reservation"),
    "P": _plain("project"),
    "Q": _requeue_values,
    "x": _constant("exclusive", True),
    "I": _constant("interactive", "I"),
    "Ip": _constant("interactive", "Ip"),
    "Is": _constant("interactive", "Is"),
    "IS": _constant("interactive", "I"),
    "ISp": _constant("interactive", "Ip"),
    "ISs": _constant("interactive", "Is"),
    "r": _constant("rerunnable", True),
    "rn": _constant("rerunnable", False),
    "ar": _constant("resizable", GROWS),
    "H": _constant("hold", True),
    "o": _file("o", "output", overwrite=False),
    "oo": _file("oo", "output", overwrite=True),
    "e": _file("e", "error", overwrite=False),
    "eo": _file("eo", "error", overwrite=True),
    "i": lambda text, around: {"input_file": _path("i", text)},
    "is": lambda text, around: {"input_file": _path("is", text)},
    "cwd": _directory("cwd", "specified_cwd"),
    "outdir": _directory("outdir", "output_dir"),
    "app": _word("app", "application", "the name of an application profile"),
    "sla": _word("sla", "service_class", "the name of a service class"),
    "E": _command("E", "pre_exec"),
    "Ep": _command("Ep", "post_exec"),
    "L": _login_shell,
    "wa": _warning_signal,
    "wt": _minutes("wt", "warning_s", "a time before the end"),
    "ti": _constant("end_orphan", True),
    "u": _mail_user,
    "B": _constant("notify_begin", True),
    "N": _constant("notify_end", True),
    "Ne": _constant("notify_error", True),
}
"""Options whose values become fields of a JobSpec, besides -R and the limits."""

_OPTIONS_OF_FIELDS: Mapping[str, tuple[str, ...]] = {
    "res_req": ("R", "nnodes", "hostfile"),
    "slots": ("n", "nnodes", "hostfile"),
    "max_slots": ("n",),
    "gpu_req": ("gpu",),
    "queue": ("q",),
    "hosts": ("m", "hostfile"),
    "first_hosts": ("m", "hostfile"),
    "dependency": ("w",),
    "begin_at": ("b",),
    "terminate_at": ("t",),
    "run_limit_s": ("W",),
    "estimate_s": ("We",),
    "priority": ("sp",),
    "group": ("g",),
    "user_group": ("G",),
    "reservation": ("U",),
    "project": ("P",),
    "requeue_exit_values": ("Q",),
    "exclusive": ("x",),
    "interactive": INTERACTIVE,
    "rerunnable": ("r", "rn"),
    "resizable": ("ar",),
    "indices": ("J",),
    "array_limit": ("J",),
    "name": ("J",),
    "description": ("Jd",),
    "application": ("app",),
    "service_class": ("sla",),
    "pre_exec": ("E",),
    "post_exec": ("Ep",),
    "output_file": ("o", "oo"),
    "error_file": ("e", "eo"),
    "input_file": ("i", "is"),
    "mail_user": ("u",),
    "gpu_idle_ok": ("-gpu-idle-ok", "gpu-idle-ok"),
    "warning_signal": ("wa", "-signal"),
    "restart_on": ("-restart-on",),
    "max_restarts": ("-max-restarts",),
    "notices": ("-notify",),
    "plots": ("-plot",),
    "container": ("-container",),
    "container_mounts": ("-container-mount",),
    "service": ("-service", "-notebook"),
    "service_users": ("-service-users",),
    **{f"limits.{limit}": (option,) for option, limit in LIMITS.items()},
}
"""Which options set the fields that the master may find wrong."""


def place_of_fields(options: Parsed, fields: Iterable[str]) -> str:
    """The lines of the script that set these fields (`line 3 of the script`); empty where the command line did."""
    names = {name for each in fields for name in _OPTIONS_OF_FIELDS.get(each, ())}
    lines = [line for name, _, line in options.placed() if name in names]
    return place(*lines) if lines and all(lines) else ""
