"""`gjobs -script` and `-env`: what a job was submitted with, byte for byte. Source: bjobs(1) of LSF 10.1."""

from __future__ import annotations

from gsched.base.errors import LSF_FAILURE, BadRequest
from gsched.base.ids import show_job
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import program
from gsched.cli.session.session import Session
from gsched.dialect.options import Option, Parsed

TEXTS = (
    Option("script", help="the script of one job, as it was submitted; stands alone"),
    Option("env", help="the variables that one job was submitted with; stands alone"),
)


def wants_text(call: Call, options: Parsed, job_ids: tuple[int, ...]) -> bool:
    """Whether one of TEXTS was given. Raises BadRequest where it does not stand alone beside one job."""
    names = [name for name, _ in options.given]
    if not options.has("script", "env"):
        return False
    if len(names) > 1 or len(job_ids) != 1 or 0 in job_ids:
        raise BadRequest(f"{program(call)}: -{names[0]} stands alone and is given one job")
    return True


def show_text(call: Call, session: Session, options: Parsed, job_id: int) -> int:
    """Write it as it is."""
    texts = session.client.texts(job_id)
    if options.has("env"):
        call.write_bytes(texts.environment.replace(b"\0", b"\n"))
        return 0
    if not texts.script:
        call.error(f"Job <{show_job(job_id)}> has no script; its command line says what it runs\n")
        return LSF_FAILURE
    call.write_bytes(texts.script)
    return 0
