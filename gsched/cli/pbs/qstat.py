"""`qstat`: jobs, queues and the server, as PBS's command of that name shows them.

Source: qstat(1B) of OpenPBS 23 and of Torque 6.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial

from gsched.base.errors import BadRequest, GschedError, NotFound
from gsched.base.ids import array_of
from gsched.cli.pbs.attribute_text import as_dsv, as_json, as_lines, format_of, json_values
from gsched.cli.pbs.pbs_call import (
    FINISHED,
    UNKNOWN_QUEUE,
    PbsRefusal,
    code_of,
    fails_as_pbs,
    ids_of,
    server_of,
    unknown_job,
)
from gsched.cli.pbs.pbs_job_facts import Attributes, PbsJob, attributes_of, collected
from gsched.cli.pbs.qstat_tables import (
    QueueCounts,
    TableStyle,
    alternative_table,
    counted,
    default_table,
    queue_table,
    server_table,
    short_queue_table,
)
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import complain, read_words, version_line
from gsched.cli.session.session import Session, connected
from gsched.cli.session.time_zone import zone_of
from gsched.cli.slurm.slurm_call import shift_of
from gsched.dialect.pbs.letter_options import LetterOptions, letter, refused_letters
from gsched.dialect.pbs.pbs_values import parse_job, show_duration
from gsched.dialect.slurm.gnu_options import GnuWords
from gsched.model.views.view import JobFilter, JobView

TABLE = LetterOptions(
    summary="show jobs, queues or the server, as PBS's qstat does",
    operands="[JOB | QUEUE ...]",
    options=(
        letter("a", "", "jobs with what they asked for"),
        letter("i", "", "only jobs that do not run"),
        letter("r", "", "only jobs that run or are suspended"),
        letter("u", "USERS", "only jobs of these users"),
        letter("n", "", "the hosts of jobs"),
        letter("s", "", "why jobs wait"),
        letter("1", "", "the hosts behind the job, in its line"),
        letter("w", "", "wider columns; with -f a line for each attribute"),
        letter("T", "", "when pending jobs are planned to start"),
        letter("G", "", "sizes in gigabytes"),
        letter("M", "", "sizes in megawords of 8 bytes"),
        letter("J", "", "only arrays"),
        letter("t", "", "the elements of arrays one by one"),
        letter("p", "", "how much of their time jobs have had"),
        letter("x", "", "jobs that have ended, too"),
        letter("H", "", "only jobs that have ended"),
        letter("f", "", "all attributes"),
        letter("F", "default|dsv|json", "how attributes are written"),
        letter("D", "CHARACTERS", "what stands between fields of dsv"),
        letter("Q", "", "queues"),
        letter("q", "", "queues and their limits"),
        letter("B", "", "the server"),
        letter("E", "", "taken: jobs are asked for at once"),
        letter("e", "", "only jobs that may start (Torque)"),
        letter("l", "", "taken: names are as long as they are (Torque)"),
        letter("c", "", "without jobs that have ended (Torque)"),
        *refused_letters("W", "there are no displays of the site", value="DISPLAY"),
        *refused_letters("R", "disks are not shown: gload shows them"),
        *refused_letters("C", "say -x to see jobs that have ended"),
    ),
    examples=("PROGRAM", "PROGRAM -f -F json 12", "PROGRAM -ans1 -u ann", "PROGRAM -x 12", "PROGRAM -Q"),
)
_ALTERNATIVE = "ainrsuTGM1H"
_ENDED = "FX"


@fails_as_pbs
def main(call: Call) -> int:
    """Run `qstat`."""
    words = read_words(call, TABLE)
    form = format_of(words)
    modes = [name for name in "QqB" if words.has(name)]
    if len(modes) > 1 or (modes and words.has(*"airnstJTpxH")):
        raise BadRequest(f"conflicting options: -{modes[0]} is for queues and the server")
    if form != "default" and not words.has("f"):
        raise BadRequest(f"-F {form} goes with -f")
    with connected(call) as session:
        server = server_of(session)
        if modes:
            return _show_queues(call, session, words, server, form)
        return _Jobs(call, session, words, server, form).shown()


class _Jobs:
    """What is shown of jobs."""

    def __init__(self, call: Call, session: Session, words: GnuWords, server: str, form: str) -> None:
        self._call, self._session, self._words, self._server, self._form = call, session, words, server, form
        self._code = 0

    def shown(self) -> int:
        """The exit code: that of the last operand that was wrong."""
        jobs = self._jobs()
        if self._code and not jobs and self._form != "json":
            return self._code
        now, zone = time.time(), zone_of(self._call.env)
        if self._words.has("f"):
            shift = cache(partial(shift_of, self._session))
            entries = [(job.name(self._server), attributes_of(job, self._server, now, zone, shift)) for job in jobs]
            write_full(self._call, "Jobs", "Job Id", entries, self._server, self._words, self._form)
        elif jobs:
            style = _style(self._words)
            table = alternative_table if self._words.has(*_ALTERNATIVE) else default_table
            for line in table(jobs, self._server, now, style):
                self._call.write(line)
        return self._code

    def _jobs(self) -> list[PbsJob]:
        if not self._words.rest:
            return self._chosen(self._asked(JobFilter(user="all", finished=self._words.has("x", "H"))), named=False)
        found: list[PbsJob] = []
        for word in self._words.rest:
            try:
                found += self._of_operand(word)
            except GschedError as problem:
                complain(self._call, problem.text)
                self._code = code_of(problem)
        return found

    def _of_operand(self, word: str) -> list[PbsJob]:
        if word[:1].isdigit():
            return self._of_job(word)
        queue, _, server = word.partition("@")
        if server and server not in (self._server, self._server.partition(".")[0]):
            raise PbsRefusal(f"cannot connect to server {server[:60]} (errno=15010)", 1)
        if queue and all(each.name != queue for each in self._session.client.queues()):
            raise PbsRefusal(f"Unknown queue {queue[:60]}", UNKNOWN_QUEUE)
        wanted = JobFilter(user="all", queue=queue, finished=self._words.has("x", "H"))
        return self._chosen(self._asked(wanted), named=False)

    def _of_job(self, word: str) -> list[PbsJob]:
        ids = ids_of(self._session, word, self._server)
        try:
            jobs = self._asked(JobFilter(ids=tuple(ids), user="all", finished=True))
        except NotFound:
            jobs = []
        if not jobs:
            raise unknown_job(word, self._server)
        chosen = self._chosen(jobs, named=True)
        if not chosen and not self._words.has("x", "H") and not self._words.has("i", "r"):
            shown = collected(jobs, one_by_one=bool(parse_job(word).indices))[0].name(self._server)
            raise PbsRefusal(f"{shown} Job has finished, use -x or -H to obtain historical job information", FINISHED)
        return chosen

    def _asked(self, wanted: JobFilter) -> list[JobView]:
        return list(self._session.client.jobs(wanted))

    def _chosen(self, jobs: Sequence[JobView], *, named: bool) -> list[PbsJob]:
        words = self._words
        are_elements = named and len({job.job_id for job in jobs if array_of(job.job_id) != job.job_id}) == 1
        found = collected(jobs, one_by_one=words.has("t") or are_elements)
        users = {name.partition("@")[0] for name in words.value("u").split(",") if name}
        tests: list[Callable[[PbsJob], bool]] = []
        if users:
            tests.append(lambda job: job.spec.user in users)
        if words.has("J"):
            tests.append(lambda job: bool(job.spec.indices))
        if words.has("i", "e"):
            tests.append(lambda job: job.state in ("QHW" if words.has("i") else "Q"))
        if words.has("r"):
            tests.append(lambda job: job.state in "RSB")
        if words.has("H"):
            tests.append(lambda job: job.state in _ENDED)
        elif not words.has("x"):
            tests.append(lambda job: job.state != "F" and (job.state != "X" or words.has("t") or are_elements))
        return [job for job in found if all(test(job) for test in tests)]


def _style(words: GnuWords) -> TableStyle:
    return TableStyle(
        wide=words.has("w"),
        percent=words.has("p"),
        nodes=words.has("n"),
        comments=words.has("s"),
        one_line=words.has("1"),
        estimates=words.has("T"),
        unit="G" if words.has("G") else "M" if words.has("M") else "",
    )


def write_full(
    call: Call,
    kind: str,
    title: str,
    entries: Iterable[tuple[str, Attributes]],
    server: str,
    words: GnuWords,
    form: str,
) -> None:
    """-f, in the form that -F names."""
    if form == "json":
        objects = {name: json_values(attributes) for name, attributes in entries}
        call.write(as_json(kind, objects, server, version_line().split()[-1]))
        return
    for name, attributes in entries:
        if form == "dsv":
            call.write(as_dsv(f"{title}: {name}", attributes, words.value("D", "|")))
            continue
        call.write(f"{title}: {name}\n")
        for line in as_lines(attributes, wide=words.has("w")):
            call.write(line)
        call.write("\n")


def _show_queues(call: Call, session: Session, words: GnuWords, server: str, form: str) -> int:
    names = [word.partition("@")[0] for word in words.rest]
    queues = session.client.queues()
    code = 0
    for name in names:
        if name and all(queue.name != name for queue in queues) and not words.has("B"):
            complain(call, f"Unknown queue {name[:60]}")
            code = UNKNOWN_QUEUE
    jobs = collected(session.client.jobs(JobFilter(user="all")), one_by_one=False)
    wanted = [queue for queue in queues if not any(names) or queue.name in names or words.has("B")]
    counts = [counted(queue, jobs) for queue in wanted]
    if words.has("f"):
        entries = [(server, _server_facts(counts, server))] if words.has("B") else _queue_facts(counts)
        kind, title = ("Server", "Server") if words.has("B") else ("Queue", "Queue")
        write_full(call, kind, title, entries, server, words, form)
        return code
    lines = (
        server_table(counts, server, "Active")
        if words.has("B")
        else short_queue_table(counts, server)
        if words.has("q")
        else queue_table(counts)
    )
    if counts:
        call.write("".join(lines))
    return code


def _state_count(counts: dict[str, int]) -> str:
    names = {"Transit": "trn", "Queued": "que", "Held": "hld", "Waiting": "wat", "Running": "run", "Exiting": "ext"}
    return " ".join(f"{name}:{counts[field]}" for name, field in names.items()) + " Begun:0 "


def _queue_facts(queues: Iterable[QueueCounts]) -> list[tuple[str, Attributes]]:
    found: list[tuple[str, Attributes]] = []
    for each in queues:
        queue = each.queue
        facts: Attributes = {"queue_type": "Execution", "Priority": str(queue.priority)}
        facts |= {"total_jobs": str(each.total), "state_count": _state_count(each.counts)}
        if queue.job_limit is not None:
            facts["max_run"] = f"[o:PBS_ALL={queue.job_limit}]"
        if queue.run_limit_s is not None:
            facts["resources_max"] = {"walltime": show_duration(queue.run_limit_s)}
        if queue.default_run_limit_s is not None:
            facts["resources_default"] = {"walltime": show_duration(queue.default_run_limit_s)}
        if queue.users:
            facts |= {"acl_user_enable": "True", "acl_users": ",".join(queue.users)}
        facts |= {"enabled": str(each.is_enabled), "started": str(each.is_started)}
        found.append((queue.name, facts))
    return found


def _server_facts(queues: Sequence[QueueCounts], server: str) -> Attributes:
    sums = {name: sum(each.counts[name] for each in queues) for name in queues[0].counts} if queues else {}
    return {
        "server_state": "Active",
        "server_host": server,
        "scheduling": "True",
        "total_jobs": str(sum(sums.values())),
        "state_count": _state_count(sums) if sums else "",
        "pbs_version": version_line().split()[-1],
    }
