"""Mail about jobs: handed to the site's mail program, or to a mail server.

Blocks; run it in another thread. It makes no text of its own but the headers, and asks nobody where to send. An address
is a user's choice: what a program could take for an option, a file or a command is none. Mail about a job of another
user than the agent's is handed over by that user.
Source: lsf.conf(5), LSB_MAILPROG, LSB_MAILSERVER.
"""

from __future__ import annotations

import email.utils
import os
import re
import shlex
import smtplib
import subprocess
from email.message import EmailMessage

from gsched.run.account import Account
from gsched.run.order import Mail

PATIENCE_S = 60.0
SMTP_PORT = 25
_ADDRESS = re.compile(r"\w[\w.+=%&'*?^{}~#!/-]*(@[\w.:\[\]-]+)?")


def send(mail: Mail, subject: str, body: str, account: Account | None = None) -> None:
    """Send one mail. Raises OSError, with what is wrong in its text. `account`: the job's user, if not the agent's."""
    if not _ADDRESS.fullmatch(mail.to):
        raise OSError(f"{mail.to!r} is not an address")
    message = EmailMessage()
    message["From"] = mail.sender
    message["To"] = mail.to
    message["Subject"] = " ".join(subject.split())[:500]
    message["Date"] = email.utils.localtime()
    # Bytes of a job's output that are no text must not keep the mail from being sent.
    message.set_content(body.encode(errors="surrogateescape").decode(errors="replace"))
    if mail.program:
        _hand_over(mail, message.as_bytes(), account)
    else:
        _to_server(mail, message)


def _hand_over(mail: Mail, data: bytes, account: Account | None) -> None:
    words = [*shlex.split(mail.program), mail.to]
    try:
        done = subprocess.run(
            words,
            input=data,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
            cwd="/",
            env=None if account is None else {"PATH": os.defpath, "HOME": account.home, "LOGNAME": account.name},
            user=None if account is None else account.uid,
            group=None if account is None else account.gid,
            extra_groups=None if account is None else account.groups,
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"{words[0]} takes longer than {PATIENCE_S:.0f} s") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[:200]
        raise OSError(f"{words[0]} failed with exit code {done.returncode}: {said}")


def _to_server(mail: Mail, message: EmailMessage) -> None:
    host, _, port = mail.server.partition(":")
    try:
        with smtplib.SMTP(host, int(port or SMTP_PORT), timeout=PATIENCE_S) as server:
            server.send_message(message)
    except smtplib.SMTPException as error:
        raise OSError(f"mail server {mail.server}: {error}") from None
