"""A job as #SBATCH lines. Source: sbatch(1) of Slurm 22.05."""

from __future__ import annotations

import re
from datetime import datetime, tzinfo

from gsched.dialect.converting.asked_scripts import PBS_DIALECT, SBATCH_DIALECT, AskedScript
from gsched.dialect.converting.asked_shape import AskedShape, shape_of_spec
from gsched.dialect.converting.printed_lines import PrintedLines, plain_path, start_folder, word
from gsched.dialect.slurm.array_lists import shifted
from gsched.dialect.slurm.dependencies import depend_list

_TEXTS = {
    "queue": "partition",
    "project": "account",
    "description": "comment",
    "reservation": "reservation",
    "mail_user": "mail-user",
}


def sbatch_lines(asked: AskedScript, zone: tzinfo) -> PrintedLines:
    """The directives, and what they cannot say."""
    lines = PrintedLines(asked, zone)
    spec = lines.spec
    if spec.name and (lines.is_given("name") or not spec.front_end):
        lines.add(f"--job-name={word(spec.name)}")
    lines.said.add("name")
    for name, option in _TEXTS.items():
        if (value := getattr(spec, name)) and not (name == "project" and value == "default"):
            value = value.replace(" ", ",") if name == "queue" else value
            lines.add(f"--{option}={word(value)}", name)
    shape = shape_of_spec(spec)
    _size(lines, shape)
    _gpus(lines, shape)
    _requirement(lines, shape)
    _array(lines)
    _times(lines)
    _files(lines)
    _flags(lines)
    lines.finish("sbatch")
    return lines


def _size(lines: PrintedLines, shape: AskedShape) -> None:
    spec, given = lines.spec, lines.asked.cpus_per_task
    lines.said.add("slots")
    if spec.max_slots:
        lines.note("max_slots", f"a range of slots has no counterpart in sbatch: it asks for {spec.slots}")
    cpus = given if given and shape.slots % given == 0 else 1
    if shape.block:
        cpus = shape.block if shape.slots % shape.block == 0 else 1
    if shape.per_host and shape.per_host % cpus:
        cpus = 1
    tasks = shape.slots // cpus
    if shape.one_host or shape.hosts > 1:
        lines.add(f"--nodes={shape.hosts}")
    if "slots" not in spec.defaulted:
        lines.add(f"--ntasks={tasks}")
    if shape.per_host and shape.hosts > 1:
        lines.add(f"--ntasks-per-node={shape.per_host // cpus}")
    if cpus > 1:
        lines.add(f"--cpus-per-task={cpus}")
    if shape.apart:
        lines.note("res_req", "chunks may share a host in PBS; here each is on a host of its own")


def _gpus(lines: PrintedLines, shape: AskedShape) -> None:
    lines.said.add("gpu_req")
    model = f"{shape.model}:" if shape.model else ""
    host_gpus = shape.host_gpus
    if shape.slot_gpus and shape.hosts:
        host_gpus = shape.slot_gpus * (shape.per_host if shape.hosts > 1 else shape.slots)
    if host_gpus:
        lines.add(f"--gres=gpu:{model}{host_gpus}")
    elif shape.slot_gpus:
        lines.add(f"--gpus-per-task={model}{shape.slot_gpus * max(1, shape.block)}")
    if shape.not_alone and (host_gpus or shape.slot_gpus):
        lines.note("gpu_req", "jobs of sbatch have their GPUs alone")
    elif lines.spec.gpu_req == "-":
        shape.left_gpu.append("-")
    for text in shape.left_gpu:
        lines.note("gpu_req", f"'{text[:60]}' has no counterpart in sbatch")


def _requirement(lines: PrintedLines, shape: AskedShape) -> None:
    lines.said.add("res_req")
    if shape.host_mib:
        lines.add(f"--mem={shape.host_mib}M")
    elif shape.slot_mib:
        lines.add(f"--mem-per-cpu={shape.slot_mib}M")
    features = [each for each in shape.features if not each.startswith("!")]
    if features:
        lines.add(f"--constraint={word('&'.join(features))}")
    if shape.excluded:
        lines.add(f"--exclude={','.join(shape.excluded)}")
    if shape.tmp_mib:
        lines.add(f"--tmp={shape.tmp_mib}M")
    if shape.shared:
        lines.add("--licenses=" + ",".join(f"{name}:{count}" for name, count in shape.shared))
    named = tuple(lines.spec.hosts) + tuple(shape.named_hosts)
    if named:
        if lines.spec.front_end != "slurm":
            lines.note("hosts", "the job gets all nodes of --nodelist, not one of them")
        lines.add(f"--nodelist={','.join(named)}", "hosts")
    for text in [*shape.left, *(each for each in shape.features if each.startswith("!"))]:
        lines.note("res_req", f"'{text[:60]}' of the requirement has no counterpart in sbatch")


def _array(lines: PrintedLines) -> None:
    spec = lines.spec
    if spec.indices:
        indices = shifted(spec.indices, -spec.index_shift)[0]
        limit = f"%{spec.array_limit}" if spec.array_limit else ""
        lines.add(f"--array={indices}{limit}", "indices", "array_limit")


def _times(lines: PrintedLines) -> None:
    spec = lines.spec
    if spec.run_limit_s is not None:
        minutes, second = divmod(spec.run_limit_s, 60)
        hours, minute = divmod(minutes, 60)
        lines.add(f"--time={hours}:{minute:02}:{second:02}", "run_limit_s")
    at = lines.number_of_begin()
    if at is not None:
        lines.add(f"--begin={at:%Y-%m-%dT%H:%M:%S}")
    if spec.terminate_at is not None:
        at = datetime.fromtimestamp(spec.terminate_at, lines.zone)
        lines.add(f"--deadline={at:%Y-%m-%dT%H:%M:%S}", "terminate_at")
    if spec.dependency:
        text = depend_list(spec.dependency, _element)
        if text:
            lines.add(f"--dependency={text}", "dependency")
    if spec.end_orphan:
        lines.add("--kill-on-invalid-dep=yes", "end_orphan")
    if spec.warning_signal:
        main = "B:" if spec.warns_main or not spec.front_end else ""
        lines.add(f"--signal={main}{spec.warning_signal}@{spec.warning_s}", "warning_signal", "warning_s")


def _element(number: int, indices: str) -> str:
    return f"{number}_[{indices}]" if indices else str(number)


def _files(lines: PrintedLines) -> None:
    spec = lines.spec
    folder = start_folder(lines)
    if folder:
        lines.add(f"--chdir={word(folder)}")
    for name in ("output", "error", "input"):
        path = getattr(spec, f"{name}_file")
        if path:
            lines.add(f"--{name}={word(_pattern(plain_path(path, lines.asked), is_array=bool(spec.indices)))}")
            lines.said.add(f"{name}_file")
    written = [name for name in ("output", "error") if getattr(spec, f"{name}_file")]
    if written and not all(getattr(spec, f"{name}_overwrite") for name in written):
        lines.add("--open-mode=append")


def _pattern(path: str, *, is_array: bool) -> str:
    number = "A" if is_array else "j"
    letters = {"J": number, "I": "a", "i": "a", "N": "N", "b": "b", "c": "b", "%": "%"}

    def written(found: re.Match[str]) -> str:
        if found[2]:
            return f"%{found[1]}{letters[found[2]]}"
        return f"%{letters[found[3]]}" if found[3] else "%%"

    return re.sub(r"%(?:0([0-9]{0,2})([JIiNbc%])|([JIi])|)", written, path, flags=re.ASCII)


def _flags(lines: PrintedLines) -> None:
    spec, asked = lines.spec, lines.asked
    if spec.exclusive:
        lines.add("--exclusive", "exclusive")
    if spec.hold:
        lines.add("--hold", "hold")
    if spec.rerunnable is not None:
        lines.add("--requeue" if spec.rerunnable else "--no-requeue", "rerunnable")
    if spec.priority is not None and asked.dialect != PBS_DIALECT:
        lines.add(f"--priority={spec.priority}")
    lines.said.add("priority")
    mails = [name for name in ("begin", "end") if getattr(spec, f"notify_{name}")]
    mails += ["fail"] if spec.notify_error else []
    if mails:
        lines.add(f"--mail-type={','.join(mails).upper()}", "notify_begin", "notify_end", "notify_error")
    if asked.waits:
        lines.add("--wait")
    names = tuple(name for name in asked.variables.names if not name.startswith("~"))
    if not asked.variables.all or names:
        kind = ["ALL"] if asked.variables.all else [] if names else ["NONE"]
        lines.add(f"--export={word(','.join([*kind, *names]))}")
    dropped = [name for name in asked.variables.names if name.startswith("~")]
    if dropped:
        lines.notes.append(f"{' '.join(dropped)} of -env has no counterpart in sbatch: unset it in the script")
    if asked.umask is not None:
        lines.note("umask", "umask= has no counterpart in sbatch: say umask in the script")
    if asked.dialect == SBATCH_DIALECT:
        lines.said.add("script_words")
