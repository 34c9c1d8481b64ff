"""What a job is told of idle GPUs on its host: once for each number, in its output and by mail, and nothing waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gsched.agent.output.idle_warnings import IdleWarnings
from gsched.base.coded_text import coded, sentence
from gsched.model.gpus.gpu_idle import IdleWarning
from gsched.run.order import Mail
from gsched.wire.messages.convert import fill
from gsched.wire.v1 import agent_pb2

KEY = (7, 1)
TEXT = coded("idle.over.works")


class Host:
    """Attempts, what is said to them, and mail."""

    def __init__(self, **order: Any) -> None:
        self.held = SimpleNamespace(**({"interactive": "", "is_part": False, "account": None} | order))
        self.alive = [KEY]
        self.marks: set[str] = set()
        self.lines: list[str] = []
        self.mails: list[tuple[str, str, str, str]] = []
        self.problem: OSError | None = None
        self.agent()

    def agent(self) -> None:
        """Another one: it knows what lies on the disk alone."""
        self.warnings = IdleWarnings(cast(Any, self), cast(Any, self), cast(Any, self), "LSF System <ann@h>")

    # -- the executor
    def running(self) -> list[tuple[int, int]]:
        return self.alive

    def order(self, *key: int) -> Any:
        return self.held

    def is_first(self, job_id: int, attempt: int, mark: str) -> bool:
        is_first = mark not in self.marks
        self.marks.add(mark)
        return is_first

    def user_of(self, *key: int) -> str:
        return "ann"

    def say(self, job_id: int, attempt: int, text: str) -> None:
        if self.problem is not None:
            raise self.problem
        self.lines.append(text)

    # -- where it blocks nobody
    async def run(self, user: str, work: Callable[[], object], limit_s: float) -> object:
        assert user == "ann" and limit_s < 60
        return work()

    # -- mail
    async def send(self, key: Any, mail: Mail, mark: str, subject: str, text: str, account: Any) -> None:
        self.mails.append((mail.to, mark, subject, text))

    def tell(self, number: int, mail_to: str = "") -> None:
        order = agent_pb2.WarnIdle(job_id=7, attempt=1, mail_to=mail_to, job_name="train", user="ann")
        warning = IdleWarning(number=number, at=1.0, idle_s=1.0, kind="held", action="kill", grace_s=1.0, text=TEXT)
        fill(order.warning, warning)
        asyncio.run(self.warnings.tell(KEY, order))


LINE = f"gsched: {sentence(TEXT)}"


def test_each_is_told_once_also_by_the_next_agent() -> None:
    host = Host()
    assert host.warnings.last(KEY) == 0
    for _ in range(3):
        host.tell(1, mail_to="ann@site")
    assert host.warnings.last(KEY) == 1
    host.agent()
    assert host.warnings.last(KEY) == 0  # the master repeats it: then it is known again
    host.tell(1, mail_to="ann@site")
    assert host.warnings.last(KEY) == 1
    assert host.lines == [LINE]
    assert host.mails == [("ann@site", "mailed.idle.1", "Job 7: <train> holds idle GPUs", f"{sentence(TEXT)}\n")]
    host.tell(2)
    assert host.lines == [LINE] * 2 and len(host.mails) == 1
    host.warnings.forget(KEY)
    assert host.warnings.last(KEY) == 0


@pytest.mark.parametrize("order", [{"interactive": "pty"}, {"is_part": True}])
def test_who_has_no_output_here_gets_mail_alone(order: dict[str, Any]) -> None:
    host = Host(**order)
    host.tell(1, mail_to="ann@site")
    assert host.lines == [] and len(host.mails) == 1


def test_output_that_cannot_be_written_keeps_no_mail_from_being_sent() -> None:
    host = Host()
    host.problem = OSError(28, "No space left on device")
    host.tell(1, mail_to="ann@site")
    assert len(host.mails) == 1 and host.warnings.last(KEY) == 1


def test_an_attempt_that_is_over_is_told_nothing() -> None:
    host = Host()
    host.alive = []
    host.tell(1, mail_to="ann@site")
    assert host.lines == host.mails == [] and host.warnings.last(KEY) == 0
