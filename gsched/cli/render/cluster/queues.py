"""`gqueues` (bqueues) and `gid` (lsid). Source of the layouts: bqueues(1), lsid(1) of LSF 10.1 and its ancestor."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from gsched.cli.render.text.limit_lines import limit_tables
from gsched.cli.render.text.text_columns import cell, left, printable
from gsched.cli.render.text.thresholds import threshold_table
from gsched.model.queues.exception_thresholds import ExceptionThresholds
from gsched.model.views.job_exceptions import IDLE, OVERRUN, UNDERRUN
from gsched.model.views.view import QueueView, ShareView

_HEADER = "QUEUE_NAME      PRIO STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN  SUSP\n"
_WIDE_HEADER = "QUEUE_NAME      PRIO STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN  SUSP  RSV PJOBS\n"
_LONG_HEADER = "PRIO NICE STATUS            MAX JL/U JL/P JL/H NJOBS  PEND   RUN SSUSP USUSP  RSV\n"
_SEPARATOR = "-" * 79 + "\n\n"


def render_short(queues: Iterable[QueueView], *, header: bool = True, wide: bool = False) -> str:
    """One row per queue; `wide` (-w) cuts nothing and adds RSV and PJOBS."""
    lines = [_WIDE_HEADER if wide else _HEADER] if header else []
    for queue in queues:
        name = left(queue.name, 15) if wide else cell(queue.name, 15)
        reserved = f" {queue.rsv:4d} {queue.pjobs:5d}" if wide else ""
        counts = f"{queue.njobs:5d} {queue.pend:5d} {queue.run:5d} {queue.ssusp + queue.ususp:5d}"
        lines.append(f"{name} {queue.priority:4d} {left(status(queue), 13)} {_limits(queue)} {counts}{reserved}\n")
    return "".join(lines)


def status(queue: QueueView, *, why: bool = False) -> str:
    """`Open:Active`, `Closed:Inact` …; with `why` `Closed:Inact_Adm`."""
    return queue.status if why else queue.status.partition("_")[0]


def _limits(queue: QueueView) -> str:
    user, processor, host = queue.user_limit, queue.processor_limit, queue.host_limit
    cells = (_limit(queue.job_limit, 5), _limit(user, 4), _limit(processor, 4), _limit(host, 4))
    return " ".join(cells)


def _limit(value: float | None, columns: int) -> str:
    return ("-" if value is None else f"{value:g}").rjust(columns)


def render_long(
    queues: Iterable[QueueView],
    *,
    default_queues: Collection[str] = (),
    external_indices: Sequence[str] = (),
    whole_tree: bool = False,
    exceptions: Mapping[str, Mapping[str, int]] | None = None,
) -> str:
    """-l: one record per queue, a line of dashes between them. `external_indices` stand in the tables of thresholds;
    `whole_tree` (-r): the shares of all levels; `exceptions`: queue -> exception -> how many jobs show it.
    """
    found = exceptions or {}
    return _SEPARATOR.join(
        "".join(_record(queue, external_indices, queue.name in default_queues, whole_tree, found.get(queue.name, {})))
        for queue in queues
    )


def _record(
    queue: QueueView,
    external_indices: Sequence[str],
    is_default: bool,
    whole_tree: bool,
    exceptions: Mapping[str, int],
) -> Iterator[str]:
    yield f"\nQUEUE: {queue.name}\n  -- {printable(queue.description) or 'No description provided.'}"
    yield "  This is the default queue.\n\n" if is_default else "\n\n"
    yield "PARAMETERS/STATISTICS\n" + _LONG_HEADER
    counts = f"{queue.njobs:5d} {queue.pend:5d} {queue.run:5d} {queue.ssusp:5d} {queue.ususp:5d} {queue.rsv:4d}"
    yield f"{queue.priority:4d} {queue.nice:4d} {left(status(queue, why=True), 15)} {_limits(queue)} {counts}\n"
    yield from _intervals(queue)
    yield "\n"
    yield from _limit_parts(queue)
    yield "SCHEDULING PARAMETERS\n" + threshold_table(external_indices, queue.thresholds) + "\n"
    if queue.exceptions:
        yield exception_table(queue.exceptions, exceptions) + "\n"
    if queue.policies:
        yield f"SCHEDULING POLICIES:  {'  '.join(queue.policies)}\n"
    if USER_SHARES in queue.facts:
        yield from (f"{name}:  {printable(queue.facts[name])}\n" for name in _SHARING if name in queue.facts)
        top = f"{(*queue.facts.get(FAIRSHARE_QUEUES, '').split(), queue.name)[0]}/"
        own_level = [row for row in queue.shares if whole_tree or row.path == top]
        yield from share_tables(own_level) if own_level else (_SHARE_TITLE.format(top),)
        yield "\n"
    yield from _settings(queue)


def exception_table(limits: ExceptionThresholds, counts: Mapping[str, int]) -> str:
    """The thresholds of a queue, and how many of its jobs are beyond them."""
    minutes = [None if each is None else each / 60 for each in (limits.overrun_s, limits.underrun_s)]
    thresholds = ["-" if each is None else f"{each:g}" for each in (*minutes, limits.idle)]
    jobs = [
        "-" if said == "-" else str(counts.get(word, 0))
        for word, said in zip((OVERRUN, UNDERRUN, IDLE), thresholds, strict=True)
    ]
    rows = (("Threshold", thresholds), ("Jobs", jobs))
    return _EXCEPTION_HEADER + "".join(f"{name:<13} {a:<12} {b:<13} {c}\n" for name, (a, b, c) in rows)


def _intervals(queue: QueueView) -> Iterator[str]:
    for name, text in _INTERVALS.items():
        if name in queue.facts:
            yield text.format(queue.facts[name])


def _limit_parts(queue: QueueView) -> Iterator[str]:
    """DEFAULT LIMITS and MAXIMUM LIMITS with their tables."""
    pairs = {name: queue.facts[name].split() for name in LIMITS if name in queue.facts}
    tasks = queue.facts.get(TASKLIMIT, "").split()
    run = (queue.default_run_limit_s, queue.run_limit_s)
    for number, title in enumerate(("DEFAULT LIMITS", "MAXIMUM LIMITS")):
        limits = {name: _amount(pair[number]) for name, pair in pairs.items()}
        tables = list(limit_tables({"CPULIMIT": limits.get("CPULIMIT"), "RUNLIMIT": run[number]}, limits))
        if number and tasks:
            tables.append(f" {TASKLIMIT}\n {' '.join(tasks)}\n")
        if tables:
            yield f"{title}:\n" + "\n".join(tables) + "\n"


def _amount(text: str) -> float | None:
    return None if text == "-" else float(text)


def _settings(queue: QueueView) -> Iterator[str]:
    """A line for each parameter that is set, in LSF's order; then what LSF does not know."""
    facts = dict(queue.facts)
    excluded = facts.pop("EXCLUDED_USERS", "")
    users = (" ".join(queue.users) or "all users") + "".join(f" ~{name}" for name in excluded.split())
    shown = {
        "PREEMPTION": facts.pop("PREEMPTION", ""),
        "RUN_WINDOWS": facts.pop("RUN_WINDOWS", ""),
        "DISPATCH_WINDOW": facts.pop("DISPATCH_WINDOW", ""),
        "USERS": users,
        "HOSTS": " ".join(queue.hosts) or "all",
        "ADMINISTRATORS": " ".join(queue.administrators),
        "REQUEUE_EXIT_VALUES": facts.pop("REQUEUE_EXIT_VALUES", ""),
        "RES_REQ": queue.res_req,
        "GPU_REQ": queue.gpu_req,
    }
    for name in (*_INTERVALS, *LIMITS, TASKLIMIT, *_SHARING):
        facts.pop(name, None)
    reserve = facts.pop("SLOT_RESERVE", "")
    # What came through a map of the wire has no order of its own.
    rest = sorted(facts.items(), key=lambda fact: (_REST.index(fact[0]) if fact[0] in _REST else len(_REST), fact[0]))
    for name, text in (*shown.items(), *rest):
        if text:
            gap = " " if name in ("USERS", "HOSTS") else "  "
            default = " (default)" if name in queue.defaulted else ""
            yield f"{name}:{gap}{printable(text)}{default}\n"
    if reserve:
        yield f"Maximum slot reservation time: {reserve} seconds\n"


USER_SHARES, FAIRSHARE_QUEUES, TASKLIMIT = "USER_SHARES", "FAIRSHARE_QUEUES", "TASKLIMIT"
_SHARING = (FAIRSHARE_QUEUES, "DISPATCH_ORDER", USER_SHARES)
LIMITS = (
    *("CPULIMIT", "MEMLIMIT", "SWAPLIMIT", "PROCESSLIMIT", "THREADLIMIT"),
    *("FILELIMIT", "DATALIMIT", "STACKLIMIT", "CORELIMIT"),
)
_REST = (
    *("CPU_TIME_FACTOR", "RUN_TIME_FACTOR", "RUN_JOB_FACTOR", "COMMITTED_RUN_TIME_FACTOR", "GPU_RUN_TIME_FACTOR"),
    *("HIST_HOURS", "ENABLE_HIST_RUN_TIME", "ENABLE_GPU_HIST_RUN_TIME"),
    *("PRE_EXEC", "POST_EXEC", "JOB_STARTER", "CONTAINER"),
    *("MAX_JOB_REQUEUE", "CHKPNT_SIGNAL", "RETRY", "GPU_IDLE", "SERVICE_IDLE"),
    *("RERUNNABLE", "STOP_COND", "RESUME_COND", "ADMIN_COMMENT"),
)
"""Parameters behind those of LSF's table; further ones come after them, by name."""
_INTERVALS = {
    "NEW_JOB_SCHED_DELAY": "Schedule delay for a new job is {} seconds\n",
    "JOB_ACCEPT_INTERVAL": "Interval for a host to accept two jobs is {} seconds\n",
}
_EXCEPTION_HEADER = "JOB EXCEPTION PARAMETERS\n              OVERRUN(min) UNDERRUN(min) IDLE(cputime/runtime)\n"
_SHARE_HEADER = " USER/GROUP   SHARES  PRIORITY  STARTED  RESERVED  CPU_TIME  RUN_TIME   ADJUST  GPU_RUN_TIME\n"
_SHARE_TITLE = "\nSHARE_INFO_FOR: {}\n" + _SHARE_HEADER


def share_tables(rows: Iterable[ShareView]) -> Iterator[str]:
    """A table per level of the share tree, each with a blank line before it."""
    path = ""
    for row in rows:
        if row.path != path:
            path = row.path
            yield _SHARE_TITLE.format(path)
        yield (
            f" {left(printable(row.name), 10)} {row.shares:8d} {row.priority:9.3f} {row.started:8d} {row.reserved:9d} "
            f"{row.cpu_s:9.1f} {row.run_s:9.0f} {row.adjust:8.3f} {row.gpu_s:13.0f}\n"
        )


def identity(version: str, cluster: str, master: str, *, as_lsf: bool = False) -> str:
    """`gid`: tools read the last two lines, and expect at least four before them.

    `as_lsf` (lsid): some tools want the first line to begin with the name of what they know how to speak to.
    """
    first, second = f"gsched {version}, a GPU-aware batch job scheduler", "IBM Spectrum LSF 10.1.0 command formats"
    return (
        f"{second}, by {first}\nNot a product of IBM\n" if as_lsf else f"{first}\n{second}\n"
    ) + f"Licensed under the Apache License, Version 2.0\n\nMy cluster name is {cluster}\nMy master name is {master}\n"
