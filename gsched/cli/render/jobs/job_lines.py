"""Lines that bjobs -l and bhist -l share: a job's header, submission, end and memory. Unfolded, without stamps.

Source of the wording: transcripts and manual pages of LSF 10.1; clients search these lines for their fixed parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, tzinfo

from gsched.base.coded_text import sentence
from gsched.base.counts import counted
from gsched.cli.render.jobs.shown_job import ShownJob, slots_on_host
from gsched.cli.render.text.size_texts import in_words
from gsched.cli.render.text.text_columns import printable
from gsched.cli.render.text.time_texts import long_stamp
from gsched.model.jobs.failure import failure_advice, failure_text, is_plain
from gsched.model.jobs.job import FINISHED, GROWS, TERM_TEXTS, AttemptFailure, Usage
from gsched.model.jobs.job_plot import shown_plots
from gsched.model.jobs.job_service import AUTO_PORT
from gsched.model.jobs.notice import shown_wishes
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.queues.job_controls import signal_of
from gsched.resreq.parsing.gpu import RANGE, parse_gpu

_MODES = {"Ip": "pseudo-terminal ", "Is": "pseudo-terminal shell "}


def header(job: ShownJob, *, with_state: bool) -> str:
    """`Job <220>, User <test>, …`; state and queue are in bjobs -l only."""
    parts = [f"Job <{job.label}>"]
    if job.spec.name or job.index or job.array_spec:
        parts.append(f"Job Name <{printable(job.display_name)}>")
    parts += [f"User <{job.spec.user}>", f"Project <{printable(job.spec.project)}>"]
    if job.spec.application:
        parts.append(f"Application <{printable(job.spec.application)}>")
    if job.spec.service_class:
        parts.append(f"Service Class <{printable(job.spec.service_class)}>")
    if job.spec.user_group:
        parts.append(f"User Group <{printable(job.spec.user_group)}>")
    if job.spec.mail_user:
        parts.append(f"Mail <{printable(job.spec.mail_user)}>")
    if with_state:
        parts += [f"Status <{job.view.state}>", f"Queue <{job.spec.queue}>"]
        if job.spec.interactive:
            parts.append(f"Interactive {_MODES.get(job.spec.interactive, '')}mode")
        if job.spec.priority is not None:
            parts.append(f"Job Priority <{job.spec.priority}>")
    parts.append(f"Command <{printable(job.spec.command)}>")
    if job.spec.description:
        parts.append(f"Job Description <{printable(job.spec.description)}>")
    if job.spec.group:
        parts.append(f"Job Group <{printable(job.spec.group)}>")
    if with_state and job.view.share_group:
        parts.append(f"Share group charged <{job.view.share_group}>")
    return ", ".join(parts)


def submission(job: ShownJob, *, with_queue: bool, zone: tzinfo = UTC) -> str:
    """`Submitted from host <h>, CWD <d>, …;`, times in the zone."""
    parts = [f"Submitted from host <{printable(job.spec.submit_host)}>" + (" on hold" if job.spec.hold else "")]
    if with_queue:
        parts.append(f"to Queue <{job.spec.queue}>")
    parts += [f"{label} <{printable(value)}>" for label, value in _submitted_options(job) if value]
    parts += [f'Copy Files "{printable(text)}"' for text in job.spec.file_copies]
    parts += [text for text, is_set in _flags(job) if is_set]
    if job.spec.notices:
        parts.append(f"Notices <{shown_wishes(job.spec.notices)}>")
    if job.spec.plots:
        parts.append(f"Plots <{printable(shown_plots(job.spec.plots))}>")
    if job.spec.slots > 1 or job.spec.max_slots > 1:
        most = f"-{job.spec.max_slots}" if job.spec.max_slots else ""
        parts.append(f"{job.spec.slots}{most} Task(s)")
    if job.spec.res_req:
        parts.append(f"Requested Resources <{printable(job.spec.res_req)}>")
    if job.spec.gpu_req:
        parts.append("Requested GPU" + ("" if job.spec.gpu_req == "-" else f" <{printable(job.spec.gpu_req)}>"))
    if job.spec.dependency:
        parts.append(f"Dependency Condition <{printable(job.spec.dependency)}>")
    parts += [f"{label} <{printable(value)}>" for label, value in _submitted_steps(job) if value]
    if job.hosts_asked:
        parts.append("Specified Hosts " + ", ".join(f"<{host}>" for host in job.hosts_asked))
    parts += [f"{label} <{printable(value)}>" for label, value in _submitted_policies(job, zone) if value]
    return ", ".join(parts) + ";"


def _flags(job: ShownJob) -> Iterator[tuple[str, bool]]:
    yield f"Notify when job {job.notify}", bool(job.notify)
    yield "Exclusive Execution", job.spec.exclusive
    yield "Re-runnable", bool(job.spec.rerunnable)
    yield "Autoresizable", job.spec.resizable == GROWS


def _submitted_steps(job: ShownJob) -> Iterator[tuple[str, str]]:
    yield "Login Shell", job.spec.login_shell
    yield "Container Image", job.spec.container
    yield "Container Mounts", " ".join(job.spec.container_mounts)
    yield "Pre-execute Command", job.spec.pre_exec
    yield "Post-execute Command", job.spec.post_exec


def _submitted_policies(job: ShownJob, zone: tzinfo) -> Iterator[tuple[str, str]]:
    yield "User Priority", "" if job.spec.priority is None else str(job.spec.priority)
    yield "Specified Start Time", "" if job.spec.begin_at is None else long_stamp(job.spec.begin_at, zone)
    yield "Specified Termination Time", "" if job.spec.terminate_at is None else long_stamp(job.spec.terminate_at, zone)
    yield "Reservation", job.spec.reservation
    yield "Requeue Exit Values", job.spec.requeue_exit_values
    yield "Maximum Restarts", "" if job.spec.max_restarts is None else str(job.spec.max_restarts)
    yield "Restart On", ",".join(job.spec.restart_on)
    yield "Warning Action", ("B:" if job.spec.warns_main else "") + job.spec.warning_signal
    yield "Idle GPUs Allowed", job.spec.gpu_idle_ok
    yield "Warning Time", "" if job.spec.warning_s is None else _warning_time(job.spec.warning_s)


def _submitted_options(job: ShownJob) -> Iterator[tuple[str, str]]:
    yield "CWD", below_home(job.spec.cwd, job.spec.home)
    yield "Specified CWD", job.spec.specified_cwd
    yield "Input File", job.spec.input_file
    yield "Output File (overwrite)" if job.spec.output_overwrite else "Output File", job.spec.output_file
    yield "Output Directory", job.spec.output_dir
    yield "Error File (overwrite)" if job.spec.error_overwrite else "Error File", job.spec.error_file


def below_home(path: str, home: str) -> str:
    """A path in the home directory is written `$HOME/rest`."""
    home = home.rstrip("/")
    if home and (path == home or path.startswith(home + "/")):
        return "$HOME" + path[len(home) :]
    return path


def host_list(hosts: Sequence[HostAllocation]) -> str:
    """`<h1> <4*h2>`"""
    return " ".join(f"<{slots_on_host(host)}>" for host in hosts)


def placement(verb: str, hosts: Sequence[HostAllocation]) -> str:
    """`Started 1 Task(s) on Host(s) <h>, Allocated 1 Slot(s) on Host(s) <h>`"""
    slots = sum(host.slots for host in hosts)
    where = host_list(hosts)
    return f"{verb} {slots} Task(s) on Host(s) {where}, Allocated {slots} Slot(s) on Host(s) {where}"


def ending(succeeded: bool, exit_code: int | None, signal: int | None, cpu_s: float | None) -> str:
    """How a job ended, without the closing mark; `cpu_s` None means that it never ran.

    A job that was killed and then exited with 0 did not succeed.
    """
    if succeeded:
        how = "Done successfully"
    elif signal is not None:
        how = f"Exited by signal {signal}"
    elif exit_code is not None:
        how = f"Exited with exit code {exit_code}"
    else:
        how = "Exited"
    used = "unknown" if cpu_s is None else f"{cpu_s:.1f} seconds"
    return f"{how}. The CPU time used is {used}"


def completion(term_reason: str) -> str:
    """`Completed <exit>`, with the reason of termination if there is one; without the closing mark."""
    if not term_reason:
        return "Completed <exit>"
    text = TERM_TEXTS.get(term_reason, "")
    return f"Completed <exit>; {term_reason}" + (f": {text}" if text else "")


def why_it_failed(failure: AttemptFailure | None) -> str:
    """`cuda_oom: a GPU had no memory left; ask for …`, gsched's own; empty where the lines about the end say as much.
    Without the closing mark.
    """
    if failure is None or is_plain(failure):
        return ""
    advice = failure_advice(failure)
    text = f"{failure.kind}: {sentence(failure_text(failure))}"
    return printable(f"{text}; {sentence(advice)}" if advice is not None else text)


def used_of_host(job: ShownJob, used_s: float | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What is known of its use of memory, processors and files: headings with their lines. `used_s`: the seconds in
    which it used so much, None where that is not known.
    """
    if text := memory(job.usage):
        yield "MEMORY USAGE", (text,)
    if texts := cpu(job.usage, sum(part.slots for part in job.placed), used_s):
        yield "CPU USAGE", texts
    if texts := io(job.usage):
        yield "I/O USAGE", texts


def idle_gpus(job: ShownJob, zone: tzinfo) -> list[str]:
    """How long all GPUs of a job have been idle, what it was told, what followed; without the closing mark."""
    idle, warning = job.idle, job.view.idle_warning
    lines = []
    if idle is not None and idle.kind:
        since = "" if idle.since is None else f", first seen so at {long_stamp(idle.since, zone)}"
        lines.append(f"Idle for {idle.idle_s:.0f} seconds ({idle.kind}){since}")
    if warning is not None:
        lines.append(f"Warned at {long_stamp(warning.at, zone)}: {sentence(warning.text)}")
        if warning.acted_text:
            lines.append(sentence(warning.acted_text))
    return [printable(line) for line in lines]


def kept_while_suspended(job: ShownJob) -> list[str]:
    """What a suspended job with GPUs does not give back; empty for any other. Without the closing mark."""
    count = sum(len(part.gpus) for part in job.placed)
    is_saving = job.view.save_by is not None and not job.view.is_spared
    if job.view.state not in ("SSUSP", "USUSP") or not count or is_saving:
        return []
    if job.view.moved_off:
        return ["What it had in the memory of its GPU, in that of the host (cuda-checkpoint): the GPU is given back"]
    why = f" ({sentence(job.view.gpus_kept)})" if job.view.gpus_kept else ""
    return [f"{count} GPU{'s' if count > 1 else ''} and what the job has in their memory: no other job gets them{why}"]


def restarts(job: ShownJob, zone: tzinfo) -> list[str]:
    """How often the system has run it again, and may do so; without the closing mark."""
    spec, view = job.spec, job.view
    if not spec.saves_itself and not view.restarts:
        return []
    most = "" if spec.max_restarts is None else f" of at most {spec.max_restarts}"
    lines = [f"Restarted {view.restarts}{most} times"]
    if view.save_by is not None:
        asked = f"Asked to save its state until {long_stamp(view.save_by, zone)} (signal {spec.warning_signal})"
        lines.append(
            asked + (", but is not ended then: nobody needs what it was to give up any more" if view.is_spared else "")
        )
    if _died_of_its_signal(job):
        lines.append(f"It died of the signal that asks it to save its state ({spec.warning_signal})")
    return lines


def _died_of_its_signal(job: ShownJob) -> bool:
    """Whether it did so by itself: who is killed may die of the same."""
    result, spec = job.view.result, job.spec
    if result is None or result.signal is None or result.term_reason or not spec.saves_on_signal:
        return False
    return result.signal == signal_of(spec.warning_signal)


def lent_gpus(job: ShownJob) -> list[str]:
    """Of a job with a range how many GPUs it has and how many of them are lent; without the closing mark."""
    asked = parse_gpu(job.spec.combined_gpu_req) if RANGE in job.spec.combined_gpu_req else None
    if asked is None:
        return []
    has = len(job.view.allocation.hosts[0].gpus) if job.view.allocation is not None else 0
    now = f", has {has} ({max(0, has - asked.num)} lent)" if has and job.view.state not in FINISHED else ""
    lines = [f"{asked.num}{RANGE}{asked.most} GPUs{now}"]
    if job.view.resizes:
        lines.append(f"Its number of GPUs has changed {counted(job.view.resizes, 'times')}")
    return lines


def service(job: ShownJob, zone: tzinfo) -> list[str]:
    """Where the page of a job is that has one, since when it answers, and who may use it."""
    spec, view = job.spec, job.view
    if not spec.service:
        return []
    port = "a free port" if spec.service == AUTO_PORT else f"port {spec.service}"
    if view.state in FINISHED:
        lines = ["It has ended with the job"]
    elif view.service_port is None or view.service_at is None:
        lines = [f"It does not answer yet ({port})"]
    else:
        host = view.allocation.first_host if view.allocation is not None else ""
        lines = [f"It answers on port {view.service_port} of host {host} since {long_stamp(view.service_at, zone)}"]
        lines.append(f"URL <{job.web_address}{job.web_path}>" if job.web_address else "`gsched web` shows it")
    if spec.service_users:
        lines.append(f"Also for {' '.join(spec.service_users)}")
    return [printable(line) for line in lines]


def memory(usage: Usage) -> str:
    """`MAX MEM: 277 Mbytes;  AVG MEM: 274 Mbytes`; empty when memory was never sampled."""
    if usage.max_mem_mib is None:
        return ""
    average = "-" if usage.avg_mem_mib is None else in_words(usage.avg_mem_mib)
    return f"MAX MEM: {in_words(usage.max_mem_mib)};  AVG MEM: {average}"


def cpu(usage: Usage, slots: int, ran_s: float | None) -> tuple[str, ...]:
    """The lines of CPU USAGE, the last one gsched's own (cores that were busy in the mean); empty when its peak is not
    known. `ran_s`: seconds; None when they are not known.
    """
    if usage.cpu_peak is None or usage.cpu_peak_s is None or not slots:
        return ()
    cores = usage.cpu_s / ran_s if ran_s is not None and ran_s > 0.0 else None
    average = "-" if cores is None else f"{100 * cores / slots:.2f}%"
    return (
        f"CPU PEAK: {usage.cpu_peak:.2f} ;  CPU PEAK DURATION: {usage.cpu_peak_s:.0f} second(s)",
        f"CPU AVERAGE EFFICIENCY: {average} ;  CPU PEAK EFFICIENCY: {100 * usage.cpu_peak / slots:.2f}%",
        f"CPU AVERAGE: {'-' if cores is None else f'{cores:.2f}'} ;  CPU TIME: {usage.cpu_s:.1f} second(s)",
    )


def io(usage: Usage) -> tuple[str, ...]:
    """The lines of I/O USAGE, gsched's own; empty when nothing is known of it."""
    pairs = (("READ", usage.read_mib, usage.written_mib), ("DISK READ", usage.disk_read_mib, usage.disk_written_mib))
    return tuple(
        f"{name}: {in_words(read)};  {name.replace('READ', 'WRITTEN')}: {in_words(written)}"
        for name, read, written in pairs
        if read is not None and written is not None
    )


def _warning_time(warning_s: int) -> str:
    """As LSF has it, whose periods are whole minutes; others are told in seconds."""
    return f"{warning_s} sec" if warning_s % 60 else f"{warning_s // 60} min"
