"""A job as #PBS lines. Source: qsub(1B) of OpenPBS 23."""

from __future__ import annotations

import re
import shlex
from datetime import tzinfo

from gsched.base.patterns import OF_SLURM, without_widths
from gsched.dialect.converting.asked_scripts import CWD, HOME, PBS_DIALECT, SERVER, AskedScript
from gsched.dialect.converting.asked_shape import AskedShape, shape_of_spec
from gsched.dialect.converting.printed_lines import PrintedLines, plain_path, word
from gsched.dialect.pbs.pbs_values import default_name, show_duration
from gsched.dialect.slurm.array_lists import shifted
from gsched.dialect.slurm.dependencies import depend_list

_NAME = re.compile(r"[A-Za-z0-9_+][!-.0-~]{0,235}", re.ASCII)
_RANGE = re.compile(r"[0-9]+-[0-9]+(?::[0-9]+)?", re.ASCII)
_LIMITS = {"CPULIMIT": "cput", "SWAPLIMIT": "vmem", "FILELIMIT": "file"}


def qsub_lines(asked: AskedScript, zone: tzinfo) -> PrintedLines:
    """The directives, and what they cannot say."""
    lines = PrintedLines(asked, zone)
    spec = lines.spec
    _name(lines)
    if spec.queue:
        lines.add(f"-q {word(spec.queue.split()[0])}", "queue")
        if " " in spec.queue:
            lines.note("queue", f"a job of PBS has one queue: of '{spec.queue[:60]}' the first")
    if spec.project not in ("", "default"):
        lines.add(f"-P {word(spec.project)}", "project")
    _resources(lines)
    _times(lines)
    _files(lines)
    _flags(lines)
    lines.finish("qsub")
    return lines


def _name(lines: PrintedLines) -> None:
    spec = lines.spec
    lines.said.add("name")
    if spec.name and (lines.is_given("name") or not spec.front_end):
        name = spec.name
        if not _NAME.fullmatch(name):
            name = re.sub(r"[^!-.0-~]", "_", name)[:236]
            name = name if _NAME.fullmatch(name) else f"_{name}"[:236]
            lines.note("name", f"'{spec.name[:60]}' cannot be a name in PBS: it became {name}")
        lines.add(f"-N {word(name)}")
    if spec.indices:
        indices = shifted(spec.indices, -spec.index_shift)[0]
        limit = f"%{spec.array_limit}" if spec.array_limit else ""
        option = "J" if _RANGE.fullmatch(indices) else "t"
        lines.add(f"-{option} {indices}{limit}", "indices", "array_limit")
        if option == "t":
            lines.note("indices", "a list of indices is one of Torque (-t); OpenPBS has FIRST-LAST[:STEP] alone (-J)")


def _resources(lines: PrintedLines) -> None:
    spec = lines.spec
    lines.said |= {"slots", "res_req", "gpu_req", "exclusive", "run_limit_s", "limits"}
    if spec.front_end_words:
        lines.lines += [f"-l {word(each)}" for each in spec.front_end_words]
    else:
        _chunks(lines, shape_of_spec(spec))
        if spec.run_limit_s is not None:
            lines.add(f"-l walltime={show_duration(spec.run_limit_s)}")
        for name, value in spec.limits.items():
            if name not in _LIMITS:
                lines.note(f"limits.{name}", f"the limit {name} has no counterpart in qsub")
            elif name == "CPULIMIT":
                lines.add(f"-l cput={show_duration(value)}")
            else:
                lines.add(f"-l {_LIMITS[name]}={int(value)}{'kb' if name == 'FILELIMIT' else 'mb'}")
    if lines.asked.dialect == PBS_DIALECT and spec.exclusive and "n" in lines.asked.places.get("exclusive", "")[-1:]:
        lines.add("-n")


def _chunks(lines: PrintedLines, shape: AskedShape) -> None:
    spec = lines.spec
    if spec.max_slots:
        lines.note("max_slots", f"a range of slots has no counterpart in qsub: it asks for {spec.slots}")
    _tell_left(lines, shape)
    is_sized = "slots" not in spec.defaulted or shape.host_gpus or shape.slot_gpus or shape.host_mib or shape.slot_mib
    if not (is_sized or shape.features or spec.hosts or shape.named_hosts or spec.exclusive):
        return
    each, arrangement = shape.slots, "pack"
    if shape.per_host and shape.hosts > 1:
        each, arrangement = shape.per_host, "scatter"
    elif not shape.hosts:
        each, arrangement = shape.block or 1, "free"
        if shape.host_gpus or shape.host_mib:
            each = shape.slots
            lines.note(
                "gpu_req" if shape.host_gpus else "res_req", "so much on each host: in PBS all is on one host now"
            )
    count, rest = divmod(shape.slots, each)
    parts = [_chunk(lines, shape, count, each)]
    if rest:
        parts.append(_chunk(lines, shape, 1, rest))
    lines.add(f"-l select={'+'.join(parts)}")
    place = [] if count == 1 and not rest else [arrangement] if arrangement != "free" else []
    place += ["excl"] if spec.exclusive else []
    if place:
        lines.add(f"-l place={':'.join(place)}")


def _chunk(lines: PrintedLines, shape: AskedShape, count: int, cpus: int) -> str:
    each = lines.asked.cpus_per_task
    processes = cpus // each if each and cpus % each == 0 else cpus if each else 0
    if not each and shape.block:
        processes = 1
    words = [str(count), f"ncpus={cpus}"] + ([f"mpiprocs={processes}"] if processes else [])
    if gpus := shape.host_gpus or shape.slot_gpus * cpus:
        words.append(f"ngpus={gpus}")
        words += [f"gpu_model={shape.model}"] if shape.model else []
    if mib := shape.host_mib or shape.slot_mib * cpus:
        words.append(f"mem={mib}mb")
    words += [
        f"{name.removeprefix('!')}={'False' if name.startswith('!') else 'True'}"
        for name in shape.features
        if "|" not in name
    ]
    hosts = [*lines.spec.hosts, *shape.named_hosts]
    if len(hosts) == 1:
        words.append(f"host={hosts[0]}")
        lines.said.add("hosts")
    return ":".join(words)


def _tell_left(lines: PrintedLines, shape: AskedShape) -> None:
    left = [*shape.left, *(each for each in shape.features if "|" in each)]
    left += [f"hname!={name}" for name in shape.excluded] + [f"{name}={count}" for name, count in shape.shared]
    left += [f"maxtmp>={shape.tmp_mib}"] if shape.tmp_mib else []
    for text in left:
        lines.note("res_req", f"'{text[:60]}' of what it needs has no counterpart in qsub")
    for text in shape.left_gpu:
        lines.note("gpu_req", f"'{text[:60]}' has no counterpart in qsub")
    if shape.not_alone and (shape.host_gpus or shape.slot_gpus):
        lines.note("gpu_req", "jobs of qsub have their GPUs alone")


def _times(lines: PrintedLines) -> None:
    spec = lines.spec
    at = lines.number_of_begin()
    if at is not None:
        lines.add(f"-a {at:%Y%m%d%H%M.%S}")
    if spec.dependency and (text := depend_list(spec.dependency, _element)):
        lines.add(f"-W depend={text}", "dependency")
        if not spec.end_orphan:
            lines.note("dependency", "PBS ends the job when that can never hold")
    lines.said.add("end_orphan")


def _element(number: int, indices: str) -> str:
    return f"{number}[{indices}]" if indices else str(number)


def _files(lines: PrintedLines) -> None:
    spec, asked = lines.spec, lines.asked
    folder = spec.specified_cwd
    if asked.dialect != PBS_DIALECT:
        # Elsewhere a job starts where it is submitted; in PBS at home.
        if folder:
            lines.add(f"-d {word(plain_path(folder, asked))}")
        else:
            lines.notes.append('PBS starts jobs in the home directory: begin the script with cd "$PBS_O_WORKDIR"')
    elif folder == CWD and lines.is_given("specified_cwd"):
        lines.add("-d .")
    elif folder not in (HOME, ""):
        lines.add(f"-d {word(plain_path(folder, asked))}")
    elif not folder:
        lines.add("-W sandbox=O_WORKDIR")
    lines.said.add("specified_cwd")
    if spec.output_file and not spec.error_file:
        lines.add("-j oe")
    kept = ""
    for letter, name in (("o", "output"), ("e", "error")):
        path = getattr(spec, f"{name}_file")
        standard = default_name(letter, spec.name, bool(spec.indices), spec.index_shift)
        kept += letter if path == f"{HOME}/{standard}" else ""
        if path and path not in (f"{CWD}/{standard}", f"{HOME}/{standard}"):
            lines.add(f"-{letter} {word(_pattern(lines, name, path))}")
        lines.said.add(f"{name}_file")
        if path and not getattr(spec, f"{name}_overwrite"):
            lines.note(f"{name}_overwrite", "qsub does not add to a file: it is written anew")
    if kept:
        lines.add(f"-k {kept}")


def _pattern(lines: PrintedLines, name: str, path: str) -> str:
    spec = lines.spec
    if OF_SLURM.search(path):
        lines.note(f"{name}_file", "PBS has no width of numbers, and no name of a host in names of files")
        path = without_widths(path)
    known = (f"%J[%i].{SERVER}", f"%J[%I].{SERVER}", f"%J.{SERVER}")
    for text in known:
        path = path.replace(text, "$PBS_JOBID")
    if "%J" in path:
        lines.note(f"{name}_file", "$PBS_JOBID has the server's name behind the number, and an index in brackets")
    for text in ("%J", "%i", "%I"):
        path = path.replace(text, "$PBS_JOBID" if text == "%J" else "^array_index^" if spec.indices else "0")
    return path.removeprefix(f"{CWD}/").replace(f"{HOME}/", "$PBS_O_HOME/")


def _flags(lines: PrintedLines) -> None:
    spec, asked = lines.spec, lines.asked
    if spec.hold:
        lines.add("-h", "hold")
    if lines.is_given("rerunnable"):
        lines.add(f"-r {'y' if spec.rerunnable else 'n'}")
    lines.said |= {"rerunnable", "priority"}
    if spec.priority is not None:
        if asked.dialect == PBS_DIALECT:
            lines.add(f"-p {spec.priority - 1025}")
        else:
            lines.note("priority", "priorities are those of each cluster: -p takes -1024 to 1023")
    mails = [
        letter for letter, name in zip("bea", ("begin", "end", "error"), strict=True) if getattr(spec, f"notify_{name}")
    ]
    if mails:
        lines.add(f"-m {''.join(mails)}", "notify_begin", "notify_end", "notify_error")
    if spec.mail_user:
        lines.add(f"-M {word(spec.mail_user)}", "mail_user")
    if asked.waits:
        lines.add("-W block=true")
    if asked.umask is not None:
        lines.add(f"-W umask={asked.umask:03o}")
    if spec.script_words:
        lines.add(f"-F {word(shlex.join(spec.script_words))}", "script_words")
    _variables(lines)
    for copy in spec.file_copies:
        theirs, how, mine = copy.split()
        if how in "<>":
            lines.add(f"-W {'stagein' if how == '>' else 'stageout'}={mine}@localhost:{theirs}", "file_copies")
        else:
            lines.note("file_copies", f"the copy '{copy[:60]}' has no counterpart in qsub")


def _variables(lines: PrintedLines) -> None:
    variables = lines.asked.variables
    if variables.all:
        lines.add("-V")
    names = [name for name in variables.names if not name.startswith("~")]
    if names:
        items = ",".join(f'"{name}"' if "," in name else name for name in names)
        lines.add(f"-v {word(items)}")
    if len(names) < len(variables.names):
        lines.notes.append("~NAME of -env has no counterpart in qsub: unset it in the script")
