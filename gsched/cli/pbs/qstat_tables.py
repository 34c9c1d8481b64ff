"""Tables of qstat: the default one, that of -a, and those of queues and the server (-Q, -q, -B).

Source: qstat(1B) of OpenPBS 23, whose widths these are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gsched.cli.pbs.attribute_text import one_line
from gsched.cli.pbs.pbs_job_facts import PbsJob, comment_of, exec_host, resources_asked, resources_used
from gsched.dialect.pbs.pbs_values import parse_size_mib
from gsched.model.jobs.job import PENDING
from gsched.model.views.view import QueueView

_CUT = "*"
_BLANK = " -- "
_COMMENT_WIDTH = (67, 110)
QUEUE_FIELDS = ("que", "run", "hld", "wat", "trn", "ext")


@dataclass(frozen=True, slots=True)
class TableStyle:
    """What options say of the tables."""

    wide: bool = False
    percent: bool = False
    nodes: bool = False
    comments: bool = False
    one_line: bool = False
    estimates: bool = False
    unit: str = ""
    """`G` or `M`: sizes in gigabytes or megawords."""


def default_table(jobs: Sequence[PbsJob], server: str, now: float, style: TableStyle) -> Iterator[str]:
    """Without options."""
    last = "% done " if style.percent else "Time Use"
    if style.wide:
        yield f"Job id                         Name            User             {last:>8} S Queue\n"
        yield "-----------------------------  --------------- ---------------  -------- - ---------------\n"
    else:
        yield f"Job id            Name             User              {last:>8} S Queue\n"
        yield "----------------  ---------------- ----------------  -------- - -----\n"
    widths = (30, 15, 15, 15) if style.wide else (17, 16, 16, 16)
    for job in jobs:
        cells = (job.name(_short(server)), _name(job), job.spec.user, job.spec.queue)
        number, name, user, queue = (_cut(text, width) for text, width in zip(cells, widths, strict=True))
        used = _percent(job, now) if style.percent else resources_used(job.job, now).get("cput", "0")
        if job.is_array and not style.percent:
            used = "0"
        line = f"{number:<{widths[0]}} {name:<{widths[1]}} {user:<{widths[2]}}  {used[:8]:>8} {job.state} "
        yield f"{line}{queue:<{widths[3]}}\n"


def _short(server: str) -> str:
    return server.partition(".")[0]


def _name(job: PbsJob) -> str:
    """Without blanks, which no name has in PBS: programs split these lines at them."""
    return "_".join(job.spec.display_name.split())


def _cut(text: str, width: int) -> str:
    text = one_line(text)
    return text if len(text) <= width else text[: width - 1] + _CUT


def _percent(shown: PbsJob, now: float) -> str:
    """How much of its time it has had, of an array how many of its elements have ended."""
    if shown.is_array:
        ended = sum(member.finished_at is not None for member in shown.members)
        return f"{100 * ended // len(shown.members):3d} "
    limit = shown.spec.run_limit_s
    used = resources_used(shown.job, now)
    if shown.state in "FX":
        return "100 "
    if not limit or not used:
        return " -- "
    hours, minutes, seconds = map(int, used["walltime"].split(":"))
    return f"{min(100, 100 * ((hours * 60 + minutes) * 60 + seconds) // limit):3d} "


def alternative_table(jobs: Sequence[PbsJob], server: str, now: float, style: TableStyle) -> Iterator[str]:
    """-a and its kin."""
    widths = (30, 15, 15, 15, 8, 4, 5) if style.wide else (15, 8, 8, 10, 6, 3, 3)
    heads = ("Job ID", "Username", "Queue", "Jobname", "SessID", "NDS", "TSK")
    before = " " * (sum(widths) + len(widths))
    yield f"\n{server}: \n"
    if style.estimates:
        yield f"{before}               Est\n"
    yield f"{before}{'Req' + chr(39) + 'd':<7}{'Req' + chr(39) + 'd':<8}{'Start' if style.estimates else 'Elap'}\n"
    yield " ".join(f"{head:<{width}}" for head, width in zip(heads, widths, strict=True)) + " Memory Time  S Time\n"
    yield " ".join("-" * width for width in widths) + " ------ ----- - -----\n"
    for job in jobs:
        yield _alternative_line(job, server, now, style, widths)
        if style.nodes:
            text = exec_host(job.job) or "--"
            yield f" {text}\n" if style.one_line else _nodes(text)
        comment = comment_of(job.job) if style.comments else ""
        if comment:
            most = _COMMENT_WIDTH[style.wide]
            yield f"   {one_line(comment if len(comment) <= most + 3 else comment[:most] + '...')}\n"


def _alternative_line(shown: PbsJob, server: str, now: float, style: TableStyle, widths: Sequence[int]) -> str:
    job, asked = shown.job, resources_asked(shown.job)
    used = {} if shown.is_array else resources_used(job, now)
    session = "--" if job.pid is None or shown.is_array else str(job.pid)
    texts = (
        *(shown.name(server), shown.spec.user, shown.spec.queue, _name(shown)),
        *(session, asked["nodect"], asked["ncpus"]),
    )
    sides = "<<<<>>>"
    cells = [f"{_cut(text, width):{side}{width}}" for text, width, side in zip(texts, widths, sides, strict=True)]
    time = "cput" if "cput" in asked else "walltime"
    spent = used.get(time, _BLANK)
    if style.estimates:
        spent = _estimate(shown)
    memory = _size(asked["mem"], style.unit) if "mem" in asked else _BLANK
    end = " " if style.nodes and style.one_line else "\n"
    line = f"{' '.join(cells)} {memory[:6]:>6} {asked.get(time, _BLANK)[:5]:>5} {shown.state} {spent[:5]:>5}"
    return line + end


def _estimate(shown: PbsJob) -> str:
    job = shown.job
    if job.planned is None or job.planned.at is None or job.state not in PENDING:
        return "--"
    seconds = max(0.0, job.planned.at - job.submitted_at)
    return f"{int(seconds // 3600):02}:{int(seconds % 3600 // 60):02}"


def _nodes(text: str) -> str:
    """Places behind three blanks, in lines of some 75 characters."""
    lines = [""]
    for part in text.split("+"):
        piece = part if lines == [""] else f"+{part}"
        if lines[-1] and len(lines[-1]) + len(piece) > 75:
            lines.append("")
        lines[-1] += piece
    return "".join(f"   {line}\n" for line in lines)


def _size(text: str, unit: str) -> str:
    """At most four digits and a unit; in whole gigabytes or megawords where that is asked for."""
    mib = parse_size_mib(text)
    if unit == "G":
        return f"{math.ceil(mib / 1024)}gb"
    if unit == "M":
        return f"{math.ceil(mib / 8)}mw"
    for name in ("mb", "gb", "tb"):
        if mib < 10_000 and (mib % 1024 or mib < 1024):
            return f"{mib}{name}"
        mib = math.ceil(mib / 1024)
    return f"{mib}pb"


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """A queue, and how many of its jobs are in which state."""

    queue: QueueView
    counts: dict[str, int]
    """By QUEUE_FIELDS."""

    @property
    def is_enabled(self) -> bool:
        return self.queue.status.startswith("Open")

    @property
    def is_started(self) -> bool:
        return self.queue.status.endswith(":Active")

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def counted(queue: QueueView, jobs: Iterable[PbsJob]) -> QueueCounts:
    """The queue with its jobs; those that have ended do not count."""
    places = {"Q": "que", "R": "run", "S": "run", "B": "run", "H": "hld", "W": "wat"}
    counts = dict.fromkeys(QUEUE_FIELDS, 0)
    for job in jobs:
        if job.spec.queue == queue.name and job.state in places:
            counts[places[job.state]] += 1
    return QueueCounts(queue, counts)


def queue_table(queues: Iterable[QueueCounts]) -> Iterator[str]:
    """-Q."""
    yield "Queue              Max   Tot Ena Str   Que   Run   Hld   Wat   Trn   Ext Type\n"
    yield "---------------- ----- ----- --- --- ----- ----- ----- ----- ----- ----- ----\n"
    for each in queues:
        flags = " ".join(f"{'yes' if is_on else 'no':>3}" for is_on in (each.is_enabled, each.is_started))
        numbers = " ".join(f"{count:>5}" for count in each.counts.values())
        name = f"{_cut(each.queue.name, 16):<16}"
        yield f"{name} {each.queue.job_limit or 0:>5} {each.total:>5} {flags} {numbers} Exec\n"


def short_queue_table(queues: Sequence[QueueCounts], server: str) -> Iterator[str]:
    """-q."""
    yield f"\nserver: {server}\n\n"
    yield "Queue            Memory CPU Time Walltime Node   Run   Que   Lm  State\n"
    yield "---------------- ------ -------- -------- ---- ----- ----- ----  -----\n"
    for each in queues:
        limit = each.queue.run_limit_s
        wall = _BLANK if limit is None else f"{limit // 3600:02}:{limit % 3600 // 60:02}:{limit % 60:02}"
        most = _BLANK if each.queue.job_limit is None else str(each.queue.job_limit)
        state = f"{'E' if each.is_enabled else 'D'} {'R' if each.is_started else 'S'}"
        waiting = each.total - each.counts["run"]
        yield (
            f"{each.queue.name:<16.16} {'--  ':>6} {_BLANK:>8} {wall:>8.8} {'-- ':>4} "
            f"{each.counts['run']:5d} {waiting:5d} {most:>4.4}   {state}\n"
        )
    running = sum(each.counts["run"] for each in queues)
    yield "                                               ----- -----\n"
    yield f"                                               {running:5d} {sum(q.total for q in queues) - running:5d}\n"


def server_table(queues: Iterable[QueueCounts], server: str, status: str) -> Iterator[str]:
    """-B."""
    yield "Server             Max   Tot   Que   Run   Hld   Wat   Trn   Ext Status\n"
    yield "---------------- ----- ----- ----- ----- ----- ----- ----- ----- -----------\n"
    sums = dict.fromkeys(QUEUE_FIELDS, 0)
    for each in queues:
        for name, count in each.counts.items():
            sums[name] += count
    numbers = " ".join(f"{count:>5}" for count in sums.values())
    yield f"{_cut(server, 16):<16} {0:>5} {sum(sums.values()):>5} {numbers} {status}\n"
