"""`gsub --resubmit JOB`: what an earlier job was submitted with, as if it were asked for again.

It must never submit what was not the caller's to see: the master gives script and environment to a job's owner alone.
"""

from __future__ import annotations

import msgspec

from gsched.base.coded_text import coded
from gsched.base.errors import BadRequest, NotFound
from gsched.base.ids import index_of, show_job
from gsched.cli.options.job_selection import parse_job_ids
from gsched.cli.session.call import Call
from gsched.cli.session.session import Session, connected
from gsched.dialect.bsub import ParsedSubmission
from gsched.model.jobs.job import JobSpec
from gsched.model.views.catalogue import AccountFilter
from gsched.model.views.view import JobFilter, JobView

_PLAIN = msgspec.structs.asdict(JobSpec(command="", user="", queue=""))
_ONCE = ("dependency", "conditions", "end_orphan", "begin_at", "terminate_at", "hold", "notices", "warnings")
"""What was said of that one time: a condition that has been met or cannot be any more, a time, and notices, whose
targets nobody reads again."""


def read_earlier(call: Call, word: str) -> ParsedSubmission:
    """The submission of the job that is called `word`; of an array's element alone that element. Raises BadRequest,
    NotFound, PermissionDenied.
    """
    numbers = parse_job_ids([word])
    if len(numbers) != 1 or numbers[0] == 0:
        raise BadRequest(f"--resubmit: '{word[:40]}' is not the number of one job")
    with connected(call) as session:
        spec = _spec(session, numbers[0])
        texts = session.client.texts(numbers[0])
    lines = texts.environment.decode("utf8", "surrogateescape").split("\0")
    return ParsedSubmission(
        spec=_again(spec, numbers[0]),
        script=texts.script or None,
        environment=dict(line.partition("=")[::2] for line in lines if line),
        umask=spec.umask,
    )


def _spec(session: Session, job_id: int) -> JobSpec:
    """That of the job or its first element, however long ago it was."""
    view: JobView | None = next(iter(session.client.jobs(JobFilter(ids=(job_id,), user="all", finished=True))), None)
    if view is None:
        accounts = session.client.catalogue.accounts(AccountFilter(ids=(job_id,)), jobs=True)
        view = next((account.job for account in accounts if account.job is not None), None)
    if view is None:
        raise NotFound(f"Job <{show_job(job_id)}> is not found")
    return view.spec


def _again(spec: JobSpec, job_id: int) -> JobSpec:
    """The specification without what was meant for that one time, or came from its queue or the cluster."""
    fields = {name: _PLAIN[name] for name in (*_ONCE, *spec.defaulted) if name in _PLAIN}
    of_limits = {name.removeprefix("limits.") for name in spec.defaulted if name.startswith("limits.")}
    fields["limits"] = {name: value for name, value in spec.limits.items() if name not in of_limits}
    fields["defaulted"] = ("slots",) if "slots" in spec.defaulted else ()
    if not spec.queue_named:
        fields["queue"] = ""
    if spec.notices:
        fields["warnings"] = (coded("warning.notices_not_again", show_job(job_id)),)
    if index_of(job_id):
        fields["indices"] = str(index_of(job_id))
    return msgspec.structs.replace(spec, **fields)
