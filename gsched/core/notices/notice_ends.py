"""What agents tell of notices, and those of which nobody tells: settled once, then forgotten on both sides."""

from __future__ import annotations

from gsched.base.coded_text import coded
from gsched.core.command import HostHello, NoticeSettled
from gsched.core.decision import Decision
from gsched.core.instruction import ForgetNotices, SendNotice
from gsched.core.records.unsent_notices import UnsentNotices
from gsched.model.event import JobNoticeSettled
from gsched.model.jobs.notice import Notice, NoticeEnd

PATIENCE_S = 24 * 3600.0
"""How long a host may take to tell what became of a notice."""


def settled(command: NoticeSettled, decision: Decision) -> None:
    """An agent has sent one, or given it up. What is not known, or another host's, is only forgotten there."""
    _settle(command.host, command.end, decision)
    decision.instruct(ForgetNotices(command.host, (command.end.notice_id,)))


def hello(command: HostHello, decision: Decision) -> None:
    """Bring both sides together: what it has not got is ordered again, what nobody wants any more it may forget."""
    for end in command.notice_ends:
        _settle(command.host, end, decision)
    wanted = {notice.notice_id: notice for notice in decision.state.notices.of_host(command.host)}
    known = {*command.notices}
    for notice_id, notice in wanted.items():
        if notice_id not in known:
            decision.instruct(SendNotice(command.host, notice))
    over = [end.notice_id for end in command.notice_ends]
    unwanted = [*over, *(notice_id for notice_id in command.notices if notice_id not in wanted)]
    if unwanted:
        decision.instruct(ForgetNotices(command.host, tuple(unwanted)))


def _settle(host: str, end: NoticeEnd, decision: Decision) -> None:
    notice = decision.state.notices.get(end.notice_id)
    if notice is not None and notice.host == host:
        _record(notice, end, decision)


def expire(decision: Decision) -> None:
    """Give up those of which no host has told anything for too long."""
    while (notice := decision.state.notices.oldest()) is not None and decision.now - notice.at >= PATIENCE_S:
        problem = coded("notice.no_word", notice.host)
        _record(notice, NoticeEnd(notice_id=notice.notice_id, problem=problem, tries=0), decision)


def next_expiry(notices: UnsentNotices) -> float | None:
    """When `expire` has something to do, UTC seconds; None: it has nothing."""
    oldest = notices.oldest()
    return None if oldest is None else oldest.at + PATIENCE_S


def _record(notice: Notice, end: NoticeEnd, decision: Decision) -> None:
    """In the history; what was not sent is shown with the job, too."""
    decision.record(
        JobNoticeSettled(
            at=decision.now,
            job_id=notice.job_id,
            notice_id=notice.notice_id,
            event=notice.event,
            way=notice.way,
            problem=end.problem,
            tries=end.tries,
        )
    )
