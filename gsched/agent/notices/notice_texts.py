"""What a notice says, in each of its ways: the JSON of a webhook, Slack's form, the input of a program, a mail.

The fields of the JSON are what other people's programs read: they are only added (docs/notices.md). It decides nothing.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

from gsched.agent.notices.notice_files import KeptNotice, NoticeOrder
from gsched.base.coded_text import CodedText, coded, sentence
from gsched.model.jobs.notice import END, FAIL, MAIL, START, WEBHOOK, Notice, NoticeJob

LONGEST_NAME = 200
"""Characters of a job's name in a sentence."""
_UNSEEN = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029]+")


def line_of(notice: Notice, cluster: str) -> str:
    """`Job 17 (train) of cluster night has failed on gpu1 after 2:03:11: a GPU had no memory left`."""
    job = notice.job
    name = _UNSEEN.sub(" ", job.name).strip()[:LONGEST_NAME]
    who = coded("notice.text.job", job.label, name, cluster)
    return sentence(_said(notice, job, who))


def _said(notice: Notice, job: NoticeJob, who: CodedText) -> CodedText:
    hosts = ", ".join(job.hosts)
    if job.elements and notice.event in (END, FAIL):
        counts = ", ".join(f"{count} {state}" for state, count in sorted(job.elements.items()))
        return coded("notice.text.array_over", who, counts)
    if notice.event == START:
        return coded("notice.text.started_on", who, hosts) if hosts else coded("notice.text.started", who)
    if notice.event in (END, FAIL):
        if job.run_s is None:
            return coded("notice.text.never_ran", who, job.why)
        ran = (hosts or "?", _span(job.run_s))
        return (
            coded("notice.text.done", who, *ran)
            if notice.event == END
            else coded("notice.text.failed", who, *ran, job.why)
        )
    return coded("notice.text.warning", who, notice.what)


def _span(seconds: float) -> str:
    """`2:03:11`, hours first."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def payload(notice: Notice, cluster: str) -> dict[str, Any]:
    """The JSON that a webhook and a program get."""
    job = notice.job
    told: dict[str, Any] = {
        "id": notice.notice_id,
        "event": notice.event,
        "text": line_of(notice, cluster),
        "at": _stamp(notice.at),
        "cluster": cluster,
        "user": notice.user,
        "job": {
            "id": job.label,
            "name": job.name,
            "queue": job.queue,
            "project": job.project,
            "state": job.state,
            "attempt": job.attempt,
            "hosts": list(job.hosts),
            "gpus": job.gpus,
            "submitted_at": _stamp(job.submitted_at),
            "started_at": _stamp(job.started_at),
            "ended_at": _stamp(job.ended_at),
            "run_s": job.run_s,
            "exit_code": job.exit_code,
            "signal": job.signal,
            "term_reason": job.term_reason,
            "failure": job.failure,
        },
    }
    if job.elements:
        told["job"]["elements"] = dict(sorted(job.elements.items()))
    if notice.what:
        code = notice.what.code if isinstance(notice.what, CodedText) else ""
        told["warning"] = {"code": code, "text": sentence(notice.what)}
    return told


def _stamp(at: float | None) -> str | None:
    """`2026-11-21T18:50:00Z`."""
    return None if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def slack_form(line: str) -> dict[str, str]:
    """What Slack takes. Its three special characters are written so that no job's name calls a channel."""
    return {"text": line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}


def delivery(kept: KeptNotice, host: str) -> dict[str, Any]:
    """What the sender is told of one notice."""
    order, notice = kept.order, kept.order.notice
    told: dict[str, Any] = {
        "notice_id": notice.notice_id,
        "try": kept.tries + 1,
        "way": notice.way,
        "to": order.to,
        "body": _body(order),
    }
    if notice.way == WEBHOOK:
        told["proxy"] = order.proxy
    elif notice.way == MAIL:
        told |= {
            "subject": line_of(notice, order.cluster),
            "sender": f"LSF System <{notice.user}@{host}>",
            "message_id": f"{notice.notice_id}@{host}",
            "mail_program": order.mail_program,
            "mail_server": order.mail_server,
        }
    else:
        told["environment"] = {
            "GSCHED_NOTICE_ID": notice.notice_id,
            "GSCHED_NOTICE_EVENT": notice.event,
            "GSCHED_NOTICE_TRY": str(kept.tries + 1),
            "LSB_JOBID": notice.job.label.partition("[")[0],
        }
    return told


def _body(order: NoticeOrder) -> str:
    notice = order.notice
    if notice.way == MAIL:
        return _letter(notice, order.cluster)
    told = payload(notice, order.cluster)
    return json.dumps(slack_form(told["text"]) if notice.way == WEBHOOK and order.form == "slack" else told)


def _letter(notice: Notice, cluster: str) -> str:
    """The sentence, and below it a line for each thing that is known."""
    told = payload(notice, cluster)
    facts = {**told["job"], "cluster": cluster, "notice": notice.notice_id}
    lines = (f"{key + ':':<14} {_plain(value)}" for key, value in facts.items() if value not in (None, "", [], {}))
    return "\n".join([told["text"], "", *lines, ""])


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{count} {state}" for state, count in value.items())
    if isinstance(value, list):
        return " ".join(map(str, value))
    return _UNSEEN.sub(" ", str(value))
