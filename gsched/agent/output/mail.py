"""Mail about jobs: handed to the site's mail program, or to a mail server.

Blocks; run it in another thread. It makes no text of its own but the headers, and asks nobody where to send. An address
is a user's choice: what a program could take for an option, a file or a command is none. Mail about a job of another
user than the agent's is handed over by that user; the fork server runs the program, for this process must not fork.
Source: lsf.conf(5), LSB_MAILPROG, LSB_MAILSERVER.
"""

from __future__ import annotations

import email.utils
import os
import re
import shlex
import smtplib
from collections.abc import Callable
from email.message import EmailMessage
from typing import NamedTuple, Protocol

from gsched.run.account import UnixAccount
from gsched.run.program import Program, ProgramEnd

PATIENCE_S = 60.0
SMTP_PORT = 25
_ADDRESS = re.compile(r"\w[\w.+=%&'*?^{}~#!/-]*(@[\w.:\[\]-]+)?")


Runs = Callable[[Program, float], ProgramEnd]
"""Runs a program to its end, so many seconds at most: ForkServer.run, for a thread of its own."""


class Routed(Protocol):
    """Where a mail goes and by what; an order's Mail is one."""

    @property
    def to(self) -> str: ...
    @property
    def sender(self) -> str: ...
    @property
    def program(self) -> str: ...
    @property
    def server(self) -> str: ...


class MailRoute(NamedTuple):
    """Where a mail that no order asks for goes, and by what."""

    to: str
    sender: str
    program: str
    server: str


def send(
    mail: Routed, subject: str, body: str, run: Runs, account: UnixAccount | None = None, *, message_id: str = ""
) -> None:
    """Send one mail; a mail program by `run`. Raises OSError, with what is wrong in its text.

    `account`: the job's user, if not the agent's; `message_id`: the same for the same mail, however often it is sent.
    """
    if not _ADDRESS.fullmatch(mail.to):
        raise OSError(f"{mail.to!r} is not an address")
    message = EmailMessage()
    message["From"] = mail.sender
    message["To"] = mail.to
    message["Subject"] = " ".join(subject.split())[:500]
    message["Date"] = email.utils.localtime()
    if message_id:
        message["Message-ID"] = f"<{message_id}>"
    # Bytes of a job's output that are no text must not keep the mail from being sent.
    message.set_content(body.encode(errors="surrogateescape").decode(errors="replace"))
    if mail.program:
        _hand_over(mail, message.as_bytes(), run, account)
    else:
        _to_server(mail, message)


def _hand_over(mail: Routed, data: bytes, run: Runs, account: UnixAccount | None) -> None:
    words = (*shlex.split(mail.program), mail.to)
    of_user = {} if account is None else {"PATH": os.defpath, "HOME": account.home, "LOGNAME": account.name}
    environment = of_user or dict(os.environ)
    program = Program(words=words, environment=environment, stdin=data, umask=0o077, account=account)
    try:
        ended = run(program, PATIENCE_S)
    except TimeoutError:
        raise OSError(f"{words[0]} takes longer than {PATIENCE_S:.0f} s") from None
    except OSError as error:
        raise OSError(f"{words[0]}: {error.strerror or error}") from None
    if ended.status:
        said = ended.printed.decode(errors="replace").strip()[:200]
        raise OSError(f"{words[0]} failed with exit code {ended.exit_code}: {said}")


def _to_server(mail: Routed, message: EmailMessage) -> None:
    host, _, port = mail.server.partition(":")
    try:
        with smtplib.SMTP(host, int(port or SMTP_PORT), timeout=PATIENCE_S) as server:
            server.send_message(message)
    except smtplib.SMTPException as error:
        raise OSError(f"mail server {mail.server}: {error}") from None
