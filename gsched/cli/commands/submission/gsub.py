"""`gsub` (bsub): submit a job; with -K wait for its end.

What bsub's options mean is known to gsched.dialect; what may enter is the master's to say.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial

import msgspec

from gsched.base.coded_text import sentence
from gsched.base.envdir import home_of
from gsched.base.errors import (
    BadRequest,
    Conflict,
    GschedError,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
)
from gsched.base.ids import new_token
from gsched.cli.render.explaining import dry_run_text
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import program, version_line
from gsched.cli.session.master_links import serves_others
from gsched.cli.session.session import Session, connected, setting
from gsched.cli.session.time_zone import zone_of
from gsched.cli.submit.caller_side import CallerSide, RememberedCallerSide
from gsched.cli.submit.code_snapshot import WORDS, CodeSnapshot, keep_snapshot, take_snapshot
from gsched.cli.submit.earlier_job import read_earlier
from gsched.cli.submit.interactive import TerminalSession
from gsched.cli.submit.job_wait import Wait, WaitForAll
from gsched.cli.submit.pack import submit_pack
from gsched.cli.submit.start_test import start_lines
from gsched.dialect.bsub import OtherScript, ParsedSubmission, read_submission, rejected
from gsched.dialect.bsub_options import BSUB
from gsched.dialect.command_line import BACKGROUND_WARNING, drops_environment, ends_in_background
from gsched.dialect.directives import split_words
from gsched.dialect.environment import environment_block
from gsched.dialect.spec_values import SpecValues
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.devices import SUDO_WARNING
from gsched.model.views import view
from gsched.model.views.view import Submitted

TABLE = BSUB
_REFUSALS = (BadRequest, Conflict, NotFound, PermissionDenied, ResourceExhausted)


def main(call: Call) -> int:
    """Run `gsub`."""
    if serves_others() and any(word in WORDS for word in call.argv[1:]):
        call.take_over()  # what a snapshot runs is run as the caller, and nowhere else
    asked = read_words(call, call.argv[1:], lambda: _typed(call))
    if asked.wants_help:
        call.write(BSUB.help(program(call)))
        return 0
    if asked.wants_version:
        call.write(version_line())
        return 0
    if setting(call, "BSUB_CHK_RESREQ").casefold() not in ("", "n", "no", "0"):
        return _check_requirement(call, asked)
    with connected(call) as session:
        if asked.pack:
            read = partial(_packed, call, RememberedCallerSide(call), {})
            return submit_pack(call, session, asked.pack, read, partial(_packed_line, call))
        if asked.is_question:
            return _tell_start(call, session, asked)
        if asked.is_interactive and not asked.from_stdin:
            call.take_over()
        submission = submission_of(call, asked)
        spec = submission.spec
        kept = take_snapshot(call, time.time()) if asked.options.has("-snapshot") else None
        job = _submit(session, asked, submission, call.token or new_token())
        if kept is not None:
            _keep(call, session, job, kept)
        _announce(call, job, spec)
        if spec.interactive:
            sitting = TerminalSession(call, session, job.job_id, spec.interactive, has_input=not asked.from_stdin)
            return sitting.to_its_end()
        if not asked.wait:
            return 0
        wait = WaitForAll if spec.indices else Wait
        return wait(call, session, job.job_id).to_its_end()


def _check_requirement(call: Call, asked: ParsedSubmission) -> int:
    """BSUB_CHK_RESREQ: -R could be read, which is all that is wanted. Raises BadRequest for what is not one."""
    if asked.pack:
        raise BadRequest(rejected("BSUB_CHK_RESREQ checks one submission, and no file of -pack"))
    call.write("Resource requirement string is valid.\n")
    return 0


def read_words(
    call: Call, words: Sequence[str], read_stdin: Callable[[], bytes], side: CallerSide | None = None
) -> ParsedSubmission:
    """What a command line with these words asks for. Raises BadRequest."""
    side = side or CallerSide(call)
    return read_submission(
        words,
        read_stdin=read_stdin,
        read_file=side.read_file,
        env=call.env,
        around=side.around,
        parse_script=True,
        is_program=side.is_program,
        esub=side.esub,
        read_other=partial(_read_other, call),
        read_earlier=partial(read_earlier, call),
    )


def _read_other(call: Call, other: OtherScript, over: SpecValues) -> ParsedSubmission:
    from gsched.cli.submit.other_scripts import read_other  # only now: gsub starts for each job, and few are theirs

    return read_other(call, other, over)


def _typed(call: Call) -> bytes:
    """Standard input; a person is asked for it."""
    if call.stdin_is_tty:
        call.write(f"{program(call)}> ")
    return call.read_stdin()


def _packed(call: Call, side: RememberedCallerSide, known: dict[str, view.Submission], line: str) -> view.Submission:
    """A line of a file of submissions. One that stands there again is read once, unless a program looks at each."""
    found = known.get(line)
    if found is None:
        found = _packed_anew(call, side, line)
        if not side.has_run_esubs:
            known[line] = found
    return found


def _packed_anew(call: Call, side: CallerSide, line: str) -> view.Submission:
    asked = read_words(call, split_words(line), lambda: b"", side)
    if asked.is_for_terminal or asked.pack or asked.options.has("-snapshot"):
        raise BadRequest(
            rejected(
                "options -I, -K, --test-only, --dry-run, --snapshot, -pack, -h and -V cannot stand "
                "in a file of submissions"
            )
        )
    return submission_of(call, asked, side)


def _packed_line(call: Call, job: Submitted, submission: view.Submission) -> None:
    _announce(call, job, submission.spec)


def submission_of(call: Call, asked: ParsedSubmission, side: CallerSide | None = None) -> view.Submission:
    """What the master is sent: with what only the caller's side knows."""
    spec, warnings = asked.spec, asked.spec.warnings
    wants_gpus = bool(spec.gpu_req) or "ngpus" in spec.res_req
    if wants_gpus and asked.script is None and drops_environment(spec.command):
        warnings += (SUDO_WARNING,)  # the master takes it back where hosts are fenced
    script = asked.script.decode("utf8", "replace") if asked.script is not None else spec.command
    if ends_in_background(script):
        warnings += (BACKGROUND_WARNING,)
    spec = msgspec.structs.replace(
        spec,
        home=home_of(call.uid, call.env),
        submit_host=call.hostname.partition(".")[0],
        umask=call.umask if asked.umask is None else asked.umask,
        warnings=warnings,
    )
    block = side.block(asked.environment) if side is not None else environment_block(asked.environment)
    return view.Submission(
        spec=spec,
        environment=block,
        script=asked.script or b"",
        input=asked.input,
        notice_targets=asked.notice_targets,
    )


def _tell_start(call: Call, session: Session, asked: ParsedSubmission) -> int:
    """When the job could start; none is submitted."""
    spec = submission_of(call, asked).spec
    if asked.dry_run:
        return _tell_dry_run(call, session, asked, spec)
    with _refusals(asked):
        found = session.client.forecast(spec)
    call.write("".join(f"{line}\n" for line in start_lines(call, found)))
    return 0


def _tell_dry_run(call: Call, session: Session, asked: ParsedSubmission, spec: JobSpec) -> int:
    """What would become of the job; none is submitted."""
    with _refusals(asked):
        found = session.client.dry_run(spec)
    if asked.as_json:
        call.write(dry_run_text.dry_run_json(found))
        return 0
    for line in dry_run_text.warning_lines(found):
        call.error(line)
    call.write(
        "".join(f"{line}\n" for line in dry_run_text.dry_run_lines(found, zone_of(call.env), bool(spec.indices)))
    )
    return 0


@contextmanager
def _refusals(asked: ParsedSubmission) -> Iterator[None]:
    """Say of what the master refuses where it stands. Other failures do not prove that there is no job, so they must
    not say so.
    """
    try:
        yield
    except _REFUSALS as problem:
        raise type(problem)(asked.refused(problem.about, problem.text)) from None


def _submit(session: Session, asked: ParsedSubmission, submission: view.Submission, token: str) -> Submitted:
    with _refusals(asked):
        return session.client.submit(submission, token=token)


def _keep(call: Call, session: Session, job: Submitted, snapshot: CodeSnapshot) -> None:
    """Before anybody knows of the job; it is submitted whether that succeeds or not."""
    try:
        problem = keep_snapshot(session, job.job_id, snapshot)
    except GschedError as error:
        problem = error.text
    if problem:
        call.error(f"Warning: the snapshot of job <{job.job_id}> is not kept: {problem}\n")


def _announce(call: Call, job: Submitted, spec: JobSpec) -> None:
    default = "default " if job.default_queue else ""
    line = "".join(
        f"Job will be {what} {_local_time(call, at)}\n"
        for what, at in (("scheduled after", spec.begin_at), ("terminated by", spec.terminate_at))
        if at is not None
    )
    line += f"Job <{job.job_id}> is submitted to {default}queue <{job.queue}>.\n"
    if "BSUB_QUIET" not in call.env:
        (call.error if "BSUB_STDERR" in call.env else call.write)(line)
    for text in job.warnings:
        call.error(f"Warning: {sentence(text)}\n")


def _local_time(call: Call, at: float) -> str:
    return datetime.fromtimestamp(at, zone_of(call.env)).strftime("%a %b %e %H:%M:%S %Y")
