"""Notices on their way through the master: where they go is told to the agent that sends them, and to nobody else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gsched.base.errors import BadRequest
from gsched.core.instruction import ForgetNotices, SendNotice
from gsched.master.agents.agent_sessions import AgentSessions
from gsched.master.rpc.scheduler_service import cleared, targets_of
from gsched.model.config import Params
from gsched.model.jobs.job import JobSpec
from gsched.model.jobs.notice import Notice, NoticeJob, NoticeWish
from gsched.model.jobs.notice_targets import NoticeTarget, packed_targets
from gsched.store.eventlog import blob_id
from gsched.wire.messages.convert import from_proto

TARGETS = (
    NoticeTarget(way="webhook", to="https://h/S3CR3T", form="slack"),
    NoticeTarget(way="mail"),
    NoticeTarget(way="mail", to="bob@site"),
    NoticeTarget(way="command", to="/opt/page x"),
)
WISHES = tuple(NoticeWish(way=target.way, events=("end",)) for target in TARGETS)
PACKED = packed_targets(TARGETS)
JOB = NoticeJob(label="1", name="n", queue="q", state="DONE", submitted_at=1.0, elements={"DONE": 2})


def notice(place: int) -> Notice:
    values: dict[str, Any] = {"user": "ann", "event": "end", "at": 1.0, "way": TARGETS[place % 4].way, "place": place}
    return Notice(notice_id="ab", job_id=1, host="a", targets=blob_id(PACKED), job=JOB, **values)


BLOBS = {blob_id(PACKED): PACKED}


def sessions(mail_program: str = "/bin/mailer") -> AgentSessions:
    params = Params(mail_to="!U@corp", mail_program=mail_program, notice_proxy="http://proxy:1")
    board = SimpleNamespace(config=SimpleNamespace(params=params, cluster="night"))
    found = AgentSessions(board)  # type: ignore[arg-type]
    found._outgoing["a"] = (1, SimpleNamespace(put_nowait=found_messages.append))  # type: ignore[assignment]
    return found


found_messages: list[Any] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    found_messages.clear()


def test_the_agent_is_told_where_each_goes_and_by_what() -> None:
    found = sessions()
    orders = [SendNotice("a", notice(n)) for n in range(4)]
    assert [found.needed(order) for order in orders] == [(blob_id(PACKED),)] * 4
    assert found.deliver(orders, BLOBS) == []
    webhook, mail, to_bob, command = [message.send_notice for message in found_messages]
    assert (webhook.to, webhook.form, webhook.proxy) == ("https://h/S3CR3T", "slack", "http://proxy:1")
    assert (webhook.mail_program, webhook.cluster) == ("", "night")
    assert (mail.to, mail.mail_program, mail.proxy) == ("ann@corp", "/bin/mailer", "")
    assert (to_bob.to, command.to, command.proxy) == ("bob@site", "/opt/page x", "")
    assert from_proto(webhook.notice, Notice) == notice(0)


def test_what_cannot_be_ordered_is_given_up() -> None:
    strange = SendNotice("a", notice(9))
    ((failed, why),) = sessions().deliver([strange], BLOBS)
    assert failed is strange and why == "notice ab has no target" and not found_messages


def test_nothing_is_read_for_an_agent_that_is_not_there() -> None:
    found, order = sessions(), SendNotice("b", notice(0))
    assert found.needed(order) == () and found.deliver([order], {}) == []


def test_no_mail_is_ordered_where_the_site_has_nothing_that_sends_it() -> None:
    ((_, why),) = sessions(mail_program="").deliver([SendNotice("a", notice(1))], BLOBS)
    assert why == "lsf.conf has neither LSB_MAILPROG nor LSB_MAILSERVER" and not found_messages


def test_what_may_be_forgotten_is_told() -> None:
    sessions().deliver([ForgetNotices("a", ("ab", "cd"))], {})
    assert list(found_messages[0].forget_notices.notice_ids) == ["ab", "cd"]


def test_targets_go_with_their_wishes() -> None:
    spec = JobSpec(command="c", user="", queue="", notices=WISHES)
    assert targets_of(spec, PACKED) == {blob_id(PACKED): PACKED}
    assert targets_of(JobSpec(command="c", user="", queue=""), b"") == {}


@pytest.mark.parametrize(
    ("wishes", "packed", "text"),
    [
        (WISHES, b"", "are not those of its wishes"),
        ((), PACKED, "are not those of its wishes"),
        (WISHES[:2], PACKED, "are not those of its wishes"),
        (WISHES[1:2], packed_targets(TARGETS[:1]), "are not those of its wishes"),
        (WISHES[:1], packed_targets((NoticeTarget(way="webhook", to="x" * 3000),)), "more than 2048 characters"),
        (WISHES[:1], packed_targets((NoticeTarget(way="webhook", form="xml"),)), "a form that is unknown"),
        (WISHES, b"[1", "cannot be read"),
        (WISHES, b'"S3CR3T"', "cannot be read"),
    ],
)
def test_targets_of_no_command_of_ours_are_refused(wishes: tuple[NoticeWish, ...], packed: bytes, text: str) -> None:
    with pytest.raises(BadRequest, match=text) as error:
        targets_of(JobSpec(command="c", user="", queue="", notices=wishes), packed)
    assert "S3CR3T" not in error.value.text


def test_nobody_has_notices_sent_to_another_jobs_targets() -> None:
    spec = JobSpec(command="c", user="", queue="", notices=WISHES, notice_targets=blob_id(PACKED))
    assert cleared(spec).notice_targets == ""
