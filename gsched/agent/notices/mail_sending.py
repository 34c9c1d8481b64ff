"""How a sender of notices sends mail: as all mail about jobs is sent, by a process of its own. Imported by no other."""

from __future__ import annotations

import subprocess
from typing import Any

from gsched.agent.output.mail import MailRoute, send
from gsched.run.program import Program, ProgramEnd


def send_mail(delivery: dict[str, Any], limit_s: float) -> None:
    """One mail, in so many seconds at most. Raises OSError, with what is wrong in its text."""
    route = MailRoute(
        to=delivery["to"], sender=delivery["sender"], program=delivery["mail_program"], server=delivery["mail_server"]
    )

    def run(program: Program, most_s: float) -> ProgramEnd:
        return _run(program, min(limit_s, most_s))

    send(route, delivery["subject"], delivery["body"], run, message_id=delivery["message_id"])


def _run(program: Program, limit_s: float) -> ProgramEnd:
    """As a child of this process. Raises OSError, TimeoutError."""
    try:
        done = subprocess.run(
            program.words,
            input=program.stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=program.environment,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    status = -done.returncode if done.returncode < 0 else done.returncode << 8  # as wait(2) tells it
    return ProgramEnd(status=status, printed=done.stdout[-4096:])
