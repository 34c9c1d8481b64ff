"""`tracejob`: what happened to jobs, line by line, as PBS's command of that name prints it; here from the history.

Source: tracejob(8B) of OpenPBS 23.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, tzinfo

from gsched.base.errors import BadRequest
from gsched.base.ids import job_order
from gsched.cli.answers.history_view import history_record
from gsched.cli.options.size_units import unit_of
from gsched.cli.pbs.pbs_call import UNKNOWN_JOB, fails_as_pbs, ids_of, read_jobs, server_of, shown_id, unknown_job
from gsched.cli.pbs.pbs_job_actions import known_jobs
from gsched.cli.render.jobs.history import HistoryRecord
from gsched.cli.render.jobs.job_lines import submission
from gsched.cli.render.text.text_columns import printable
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import complain
from gsched.cli.session.session import connected
from gsched.cli.session.time_zone import zone_of
from gsched.dialect.pbs.letter_options import LetterOptions, letter, refused_letters
from gsched.dialect.pbs.pbs_values import parse_count
from gsched.model.views.past_query import HistoryQuery
from gsched.model.views.view import JobFilter, JobHistory

TABLE = LetterOptions(
    summary="show what happened to jobs, as PBS's tracejob does",
    operands="JOB ...",
    options=(
        letter("n", "DAYS", "only of this many days"),
        letter("z", "", "taken: nothing is shown twice"),
        letter("v", "", "taken: all that is known is shown"),
        *(letter(name, "", "taken: there is one history, of master, scheduler and hosts") for name in "amsl"),
        letter("w", "WIDTH", "taken: lines are as long as they are"),
        *refused_letters("pfc", "there is one history: ghist -l shows it", value="VALUE"),
    ),
    examples=("PROGRAM 12",),
)


@fails_as_pbs
def main(call: Call) -> int:
    """Run `tracejob`."""
    words = read_jobs(call, TABLE)
    try:
        days = parse_count(words.value("n")) if words.has("n") else 0
    except BadRequest as error:
        raise BadRequest(f"illegal -n value: {error.text}") from None
    now, zone, unit = time.time(), zone_of(call.env), unit_of(call)
    since = now - 86_400 * days if days else 0.0
    code = 0
    with connected(call) as session:
        server = server_of(session)
        for word in words.rest:
            ids = tuple(ids_of(session, word, server))
            told = [
                each
                for each in session.client.past.histories(HistoryQuery(jobs=JobFilter(ids=ids, user="all")))
                if isinstance(each, JobHistory)
            ]
            if not told and not known_jobs(session, ids):
                complain(call, unknown_job(word, server).text)
                code = UNKNOWN_JOB
            for each in sorted(told, key=lambda each: job_order(each.job_id)):
                call.write("".join(_lines(history_record(each, unit, None), server, since, zone)))
    return code


def _lines(record: HistoryRecord, server: str, since: float, zone: tzinfo) -> Iterator[str]:
    """`11/28/2026 04:59:04  S    TEXT` for each thing that happened."""
    job = record.job

    def stamped(at: float, text: str) -> str:
        return f"{datetime.fromtimestamp(at, zone).strftime('%m/%d/%Y %H:%M:%S')}  S    {printable(text.rstrip(';'))}\n"

    yield f"\nJob: {shown_id(job.view.job_id, job.spec, server)}\n\n"
    if job.view.submitted_at >= since:
        yield stamped(job.view.submitted_at, submission(job, with_queue=True, zone=zone))
    for event in record.events:
        if event.at >= since:
            yield from (stamped(event.at, text) for text in event.lines())
