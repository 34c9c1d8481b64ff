"""Notices: what a job's user wants to hear of it and how, and what one of them says.

Where a notice goes is a secret and stands in gsched.model.jobs.notice_targets. Nothing here sends anything. The fork
server loads this module with the jobs': it must import little.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gsched.base.coded_text import AnyText, CodedText, coded

START, END, FAIL, WARNING = "start", "end", "fail", "warning"
EVENTS = (START, END, FAIL, WARNING)
"""What there are notices of: its first process runs; it is DONE or EXIT; it is EXIT; something else to be known."""
_EVENT_TEXTS = {
    START: "notice.event.start",
    END: "notice.event.end",
    FAIL: "notice.event.fail",
    WARNING: "notice.event.warning",
}
WEBHOOK, COMMAND, MAIL = "webhook", "command", "mail"
WAYS = (WEBHOOK, COMMAND, MAIL)


class NoticeWish(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One way in which a job's user wants to hear of it, as far as others may see it."""

    way: str
    events: tuple[str, ...]
    each_element: bool = False
    """Of an array: of each element, not of all together."""

    def wants(self, event: str) -> bool:
        """Whether a notice of that event is wanted: whoever wants to hear of the end hears of a failure too."""
        return event in self.events or (event == FAIL and END in self.events)


class NoticeJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The job of a notice, as it was then. Times are UTC seconds; None: it has not happened, or nobody knows."""

    label: str
    """Its number, with the index of an array's element: `17[3]`."""
    name: str
    queue: str
    project: str = ""
    state: str
    attempt: int = 0
    hosts: tuple[str, ...] = ()
    gpus: int = 0
    submitted_at: float
    started_at: float | None = None
    ended_at: float | None = None
    run_s: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    term_reason: str = ""
    """LSF's keyword for why it was ended."""
    failure: str = ""
    """The class of its failure (gsched.model.jobs.failure)."""
    why: AnyText = ""
    """That failure in words."""
    elements: dict[str, int] = {}
    """Of an array: state -> elements in it."""


class Notice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One message that is to be sent once. `notice_id` stays the same however often it is tried."""

    notice_id: str
    job_id: int
    """Of an array where it is about all of it."""
    host: str
    """Whose agent sends it."""
    user: str
    event: str
    at: float
    way: str
    place: int
    """Which of the job's wishes it is of."""
    targets: str
    """Id of the blob with the targets of all its wishes."""
    what: AnyText = ""
    """Of a warning: what there is to be known."""
    job: NoticeJob


class NoticeEnd(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What has become of a notice. An empty `problem`: it was sent."""

    notice_id: str
    problem: AnyText = ""
    tries: int = 1


def event_text(event: str) -> CodedText:
    """What people call it."""
    return coded(_EVENT_TEXTS.get(event, event))


def not_sent(event: str, way: str, problem: AnyText) -> CodedText:
    """The note that the notice of that event was not sent, and why."""
    return coded("note.notice_not_sent", event_text(event), way, problem)


def shown_wishes(wishes: Sequence[NoticeWish]) -> str:
    """`webhook: end, warning; mail: fail`: what everybody may see."""
    return "; ".join(
        f"{wish.way}: {', '.join(wish.events)}" + (" (each element)" if wish.each_element else "") for wish in wishes
    )
