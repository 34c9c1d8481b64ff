"""A job as #BSUB lines. Source: bsub(1) of LSF 10.1."""

from __future__ import annotations

from datetime import datetime, tzinfo

from gsched.base.patterns import OF_SLURM, without_widths
from gsched.dialect.converting.asked_scripts import AskedScript
from gsched.dialect.converting.printed_lines import PrintedLines, plain_path, start_folder, word
from gsched.dialect.job_limits import COUNTS, LIMITS, SIZES_KIB

_TEXTS = {
    "queue": "q",
    "project": "P",
    "description": "Jd",
    "dependency": "w",
    "group": "g",
    "user_group": "G",
    "reservation": "U",
    "requeue_exit_values": "Q",
    "application": "app",
    "service_class": "sla",
    "pre_exec": "E",
    "post_exec": "Ep",
    "login_shell": "L",
    "mail_user": "u",
    "output_dir": "outdir",
    "gpu_idle_ok": "-gpu-idle-ok",
    "container": "-container",
}
_FLAGS = {
    "exclusive": "x",
    "hold": "H",
    "end_orphan": "ti",
    "notify_begin": "B",
    "notify_end": "N",
    "notify_error": "Ne",
}


def bsub_lines(asked: AskedScript, zone: tzinfo) -> PrintedLines:
    """The directives, and what they cannot say."""
    lines = PrintedLines(asked, zone)
    _name(lines)
    _size(lines)
    for name, option in _TEXTS.items():
        if (value := getattr(lines.spec, name)) and not (name == "project" and value == "default"):
            lines.add(f"-{option} {word(value)}", name)
    for name, option in _FLAGS.items():
        if getattr(lines.spec, name):
            lines.add(f"-{option}", name)
    _times(lines)
    _mounts(lines)
    _limits(lines)
    _files(lines)
    _rest(lines)
    lines.finish("bsub")
    return lines


def _name(lines: PrintedLines) -> None:
    spec = lines.spec
    limit = f"%{spec.array_limit}" if spec.array_limit else ""
    if spec.indices:
        lines.add("-J " + word(f"{spec.name}[{spec.indices}]{limit}"), "indices", "array_limit", "name")
    elif spec.name and (lines.is_given("name") or not spec.front_end):
        lines.add(f"-J {word(spec.name)}", "name")
    lines.said.add("name")
    if spec.index_shift:
        lines.note("indices", "indices count from 1: LSB_JOBINDEX is one more than the script expects")


def _size(lines: PrintedLines) -> None:
    spec = lines.spec
    if "slots" not in spec.defaulted:
        lines.add(f"-n {spec.slots}" + (f",{spec.max_slots}" if spec.max_slots else ""))
    lines.said |= {"slots", "max_slots"}
    if spec.res_req:
        lines.add(f"-R {word(spec.res_req)}", "res_req")
    if spec.gpu_req:
        lines.add(f"-gpu {word(spec.gpu_req)}", "gpu_req")
    if spec.hosts:
        levels = spec.host_levels or (0,) * len(spec.hosts)
        names = [
            f"{name}!" if name in spec.first_hosts else f"{name}+{level}" if level else name
            for name, level in zip(spec.hosts, levels, strict=True)
        ]
        others = ["others"] if spec.other_hosts else []
        lines.add(f"-m {word(' '.join(names + others))}", "hosts", "host_levels", "other_hosts", "first_hosts")


def _times(lines: PrintedLines) -> None:
    spec = lines.spec
    for name, option in (("run_limit_s", "W"), ("estimate_s", "We")):
        if (value := getattr(spec, name)) is not None:
            lines.add(f"-{option} {_minutes(lines, name, value)}", name)
    if spec.max_restarts is not None:
        lines.add(f"--max-restarts {spec.max_restarts}", "max_restarts")
    if spec.restart_on:
        lines.add(f"--restart-on {','.join(spec.restart_on)}", "restart_on")
    if spec.saves_on_signal:
        main = "B:" if spec.warns_main else ""
        lines.add(f"--signal {main}{spec.warning_signal}@{spec.warning_s}")
        lines.said |= {"warning_signal", "warning_s", "saves_on_signal"}
    elif spec.warning_signal and spec.warning_s:
        lines.add(f"-wa {spec.warning_signal} -wt {_minutes(lines, 'warning_signal', spec.warning_s)}")
        lines.said |= {"warning_signal", "warning_s"}
    at = lines.number_of_begin()
    if at is not None:
        lines.add(f"-b {_moment(at)}")
    if spec.terminate_at is not None:
        lines.add(f"-t {_moment(datetime.fromtimestamp(spec.terminate_at, lines.zone))}", "terminate_at")


def _minutes(lines: PrintedLines, about: str, seconds: int) -> str:
    minutes = -(-seconds // 60)
    if seconds % 60:
        lines.note(about, f"bsub counts whole minutes: {seconds} seconds became {minutes}")
    return f"{minutes // 60}:{minutes % 60:02}"


def _moment(at: datetime) -> str:
    return f"{at:%Y:%m:%d:%H:%M}"


def _mounts(lines: PrintedLines) -> None:
    for mount in lines.spec.container_mounts:
        lines.add(f"--container-mount {word(mount)}", "container_mounts")


def _limits(lines: PrintedLines) -> None:
    lines.said.add("limits")
    for option, name in LIMITS.items():
        if (value := lines.spec.limits.get(name)) is None:
            continue
        if option == "c":
            lines.add(f"-c {_minutes(lines, 'limits', int(value))}")
        elif option in COUNTS:
            lines.add(f"-{option} {int(value)}")
        else:
            lines.add(f"-{option} {int(value)}{'KB' if option in SIZES_KIB else 'MB'}")


def _files(lines: PrintedLines) -> None:
    spec = lines.spec
    folder = start_folder(lines)
    if folder:
        lines.add(f"-cwd {word(folder)}")
    for letter, name in (("o", "output"), ("e", "error")):
        if path := getattr(spec, f"{name}_file"):
            option = f"{letter}o" if getattr(spec, f"{name}_overwrite") else letter
            # LSF has no name for an index that is counted from 0.
            text = plain_path(path, lines.asked)
            if OF_SLURM.search(text):
                lines.note(f"{name}_file", "LSF fills in %J and %I, without a width, and nothing else")
            text = without_widths(text).replace("%i", "%I")
            lines.add(f"-{option} {word(text)}", f"{name}_file")
    if spec.input_file:
        lines.add(f"-i {word(plain_path(spec.input_file, lines.asked).replace('%i', '%I'))}", "input_file")
    for copy in spec.file_copies:
        lines.add(f"-f {word(copy)}", "file_copies")


def _rest(lines: PrintedLines) -> None:
    spec, asked = lines.spec, lines.asked
    if spec.rerunnable is not None:
        lines.add("-r" if spec.rerunnable else "-rn", "rerunnable")
    if spec.priority is not None and asked.dialect != "pbs":
        lines.add(f"-sp {spec.priority}")
    lines.said.add("priority")
    if spec.interactive:
        lines.add(f"-{spec.interactive}", "interactive")
    if asked.waits:
        lines.add("-K")
    if not asked.variables.all:
        lines.add(f"-env {word(', '.join(['none', *asked.variables.names]))}")
    elif asked.variables.names:
        lines.add(f"-env {word(', '.join(['all', *asked.variables.names]))}")
    if spec.warns_main:
        lines.note("warning_signal", "LSF sends the signal to all processes of the job")
    if asked.umask is not None:
        lines.note("umask", "umask= has no counterpart in bsub: say umask in the script")
