"""The program that sends notices: a short-lived process of their user, started by the fork server for each few of them.

Reads a batch from standard input, as JSON (gsched.agent.notices.notice_texts): where notices go is in no argument and
no environment. Writes to standard output, a journal that the agent has opened: a line before and a line after each try,
on disk before it goes on. It waits for nobody longer than a limit, follows no redirect, reads little of any answer, and
never writes a URL. One who does not answer is left alone for the rest of the run. Standard library only, but for mail.

Run as: python -I -S -X utf8 -c PRELUDE PACKAGE_ROOT MSGSPEC_ROOT (see notice_delivery)
"""

from __future__ import annotations

import http.client
import json
import os
import shlex
import signal
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import SplitResult, urlsplit

from gsched.base.machine.undumpable import be_undumpable

WEBHOOK_S, COMMAND_S, MAIL_S = 20.0, 60.0, 60.0
"""How long one try may take."""
MOST_ANSWER = 64 * 1024
"""Bytes of an answer that are read: what it says is of no interest."""
MOST_AFTER_S = 3600.0
"""The longest time that a server may ask to be left alone (Retry-After)."""
NICENESS = 10
_AGAIN = frozenset({408, 425, 429})
"""HTTP statuses, beside 5xx, that say that another time may do."""

Outcome = dict[str, Any]
"""As TryEnd of notice_files."""


def main(batch: bytes) -> None:
    """Send what the batch has, in its order, for as long as it says. Never raises."""
    hide()
    told = json.loads(batch)
    until = time.monotonic() + told["limit_s"]
    silent: set[str] = set()
    for delivery in told["deliveries"]:
        if time.monotonic() >= until:
            break
        name = delivery["notice_id"]
        where = place_of(delivery)
        if where in silent:
            note(f"skip {name}")
            continue
        note(f"try {name} {delivery['try']}")
        outcome = bounded(delivery)
        if outcome.get("problem") in ("notice.no_answer", "notice.no_connection"):
            silent.add(where)
        note(f"end {name} {delivery['try']} {json.dumps(outcome)}")
    os._exit(0)  # a thread may still wait for somebody


def hide() -> None:
    """No other process of the user looks into this one, and it takes the processors after everybody else."""
    be_undumpable()
    os.nice(NICENESS)


def note(line: str) -> None:
    """On disk when this returns."""
    data = line.encode("ascii") + b"\n"
    while data:
        data = data[os.write(1, data) :]
    try:
        os.fsync(1)
    except OSError:  # a pipe, in a test
        pass


def place_of(delivery: dict[str, Any]) -> str:
    """What answers or does not: the server of a webhook, the program, the mail."""
    return f"{delivery['way']} {urlsplit(delivery['to']).netloc if delivery['way'] == 'webhook' else delivery['to']}"


def bounded(delivery: dict[str, Any]) -> Outcome:
    """One try, given up after its time."""
    send, limit_s = _SEND[delivery["way"]]
    found: list[Outcome] = []

    def work() -> None:
        try:
            found.append(send(delivery))
        except Exception as error:
            found.append(failed("notice.failed", type(error).__name__))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(limit_s)
    return found[0] if found else failed("notice.no_answer", int(limit_s))


def failed(code: str, *values: str | int, again: bool = True, after_s: float | None = None) -> Outcome:
    outcome: Outcome = {"problem": code, "values": list(values), "again": again}
    if after_s is not None:
        outcome["after_s"] = after_s
    return outcome


# -- webhooks ---------------------------------------------------------------------------------------------------------


def send_webhook(delivery: dict[str, Any]) -> Outcome:
    """One POST. What a server says is told by its number alone."""
    url = urlsplit(delivery["to"])
    if url.scheme not in ("http", "https") or not url.hostname:
        return failed("notice.no_url", again=False)
    connection, target = connection_to(url, delivery["proxy"])
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "gsched",
        "Idempotency-Key": delivery["notice_id"],
        "X-Gsched-Try": str(delivery["try"]),
    }
    try:
        connection.request("POST", target, body=delivery["body"].encode(), headers=headers)
        response = connection.getresponse()
        response.read(MOST_ANSWER)
    except ssl.SSLError as error:
        return failed("notice.tls", error.reason or "no TLS")
    except TimeoutError:
        return failed("notice.no_answer", int(WEBHOOK_S))
    except OSError as error:
        return failed("notice.no_connection", error.strerror or type(error).__name__)
    except http.client.HTTPException as error:
        return failed("notice.no_http", type(error).__name__)
    finally:
        connection.close()
    return judged(response.status, response.headers.get("Retry-After", ""))


def connection_to(url: SplitResult, proxy: str) -> tuple[http.client.HTTPConnection, str]:
    """A connection that is not open yet, and what is asked of it."""
    path = url.path or "/"
    if url.query:
        path += f"?{url.query}"
    is_secure = url.scheme == "https"
    kind = http.client.HTTPSConnection if is_secure else http.client.HTTPConnection
    if not proxy:
        return kind(url.hostname or "", url.port, timeout=WEBHOOK_S), path
    by = urlsplit(proxy)
    connection = kind(by.hostname or "", by.port, timeout=WEBHOOK_S)
    if is_secure:
        connection.set_tunnel(url.hostname or "", url.port or 443)
        return connection, path
    return connection, f"http://{url.netloc}{path}"


def judged(status: int, retry_after: str) -> Outcome:
    """What an HTTP status means."""
    if 200 <= status < 300:
        return {}
    if 300 <= status < 400:
        return failed("notice.redirect", status, again=False)
    if status in _AGAIN or status >= 500:
        return failed("notice.http", status, again=True, after_s=seconds_of(retry_after))
    return failed("notice.http", status, again=False)


def seconds_of(retry_after: str) -> float | None:
    """Seconds or a date, as RFC 9110 has them; None for neither."""
    text = retry_after.strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        return min(float(text), MOST_AFTER_S)
    try:
        return min(max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0), MOST_AFTER_S)
    except (TypeError, ValueError, OverflowError):
        return None


# -- programs and mail ------------------------------------------------------------------------------------------------


def send_command(delivery: dict[str, Any]) -> Outcome:
    """Run the user's program with the notice as its input. What it prints goes nowhere."""
    environment = {**os.environ, **delivery["environment"]}
    try:
        words = shlex.split(delivery["to"])
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=os.environ.get("HOME", "/"),
            env=environment,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return failed("notice.not_run", getattr(error, "strerror", "") or type(error).__name__, again=False)
    try:
        process.communicate(delivery["body"].encode(), timeout=COMMAND_S - 5.0)
    except subprocess.TimeoutExpired:
        kill(process.pid)
        process.wait()
        return failed("notice.no_answer", int(COMMAND_S - 5.0))
    if process.returncode:
        return failed("notice.command", process.returncode)
    return {}


def kill(group: int) -> None:
    """A program and what it has started."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def send_mail(delivery: dict[str, Any]) -> Outcome:
    """By the site's mail program, as this user, or its mail server."""
    # It needs much that takes longer to import than a webhook to be told.
    from gsched.agent.notices import mail_sending

    try:
        mail_sending.send_mail(delivery, MAIL_S - 5.0)
    except OSError as error:
        return failed("notice.mail", str(error)[:200])
    return {}


_SEND: dict[str, tuple[Callable[[dict[str, Any]], Outcome], float]] = {
    "webhook": (send_webhook, WEBHOOK_S),
    "command": (send_command, COMMAND_S),
    "mail": (send_mail, MAIL_S),
}
