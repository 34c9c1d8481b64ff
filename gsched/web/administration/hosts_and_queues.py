"""The first page of the administration: daemons with their versions, hosts with their GPUs, queues; what is chosen
there is closed or opened.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from gsched.base.coded_text import sentence
from gsched.base.errors import BadRequest
from gsched.model.hosts.fleet import AWAY, CONNECTED, REFUSED, DaemonView
from gsched.model.views.view import Answer
from gsched.web.access.form_reading import Fields, one
from gsched.web.pages.cluster_page import HOSTS_PER_PAGE, HostLine, host_lines
from gsched.web.pages.page_context import WebContext, address, show

PAGE = "/administration"
LONGEST_WORD = 200
LONGEST_COMMENT = 512
MOST_CHOSEN = 1_000
DONE = ("close", "open", "gpu-close", "gpu-open", "queue")
"""What the page says after a deed."""
AGENT_STATES = (CONNECTED, REFUSED, AWAY)
"""Those of which the page has words."""
HOST_ACTIONS = ("close", "open")
GPU_ACTIONS = ("gpu-close", "gpu-open")
QUEUE_ACTIONS = ("close", "open", "inactivate", "activate")


class AdminHost(msgspec.Struct, frozen=True, kw_only=True):
    """A host, and its agent (None: it has none)."""

    line: HostLine
    agent: DaemonView | None


def administration_page(context: WebContext, request: Request) -> Response:
    """Answer `/administration`. Raises GschedError."""
    return _shown(context, request, 200)


def _shown(context: WebContext, request: Request, status: int, refused: Sequence[str] = ()) -> Response:
    client = context.client
    text = request.query_params.get("text", "").strip()[:LONGEST_WORD]
    found = [host for host in client.hosts() if text.casefold() in host.name.casefold()]
    daemons = client.fleet.versions()
    agents = {daemon.host: daemon for daemon in daemons if daemon.kind == "agent"}
    said = request.query_params.get("said", "")
    values = {
        "hosts": [
            AdminHost(line=line, agent=agents.get(line.view.name))
            for line in host_lines(context, found[:HOSTS_PER_PAGE])
        ],
        "host_count": len(found),
        "most_hosts": HOSTS_PER_PAGE,
        "queues": client.queues(),
        "master": daemons[0] if daemons else None,
        "quarantined": client.cluster().quarantined,
        "text": text,
        "said": said if said in DONE else "",
        "refused": list(refused),
        "tab": "hosts",
        "sentence": sentence,
        "agent_states": AGENT_STATES,
    }
    return show(context, request, "administration.html", values, status)


def control_hosts(context: WebContext, request: Request, fields: Fields) -> Response:
    """Answer a form with `action`, one or more `host` or `gpu`, and `comment`. Raises GschedError."""
    action, comment = one(fields, "action"), _comment(fields)
    if action in HOST_ACTIONS:
        context.client.host_control(action, _chosen(fields, "host", "a host"), comment)
    elif action in GPU_ACTIONS:
        answers = context.client.gpu_control(
            action.removeprefix("gpu-"), _chosen(fields, "gpu", "a GPU"), comment if action == "gpu-close" else ""
        )
        if told := _told(answers):
            return _shown(context, request, 200, told)
    else:
        raise BadRequest("there is no such action")
    return RedirectResponse(address(PAGE, {"said": action}), 303)


def control_queues(context: WebContext, request: Request, fields: Fields) -> Response:
    """Answer a form with `action`, one or more `queue`, and `comment`. Raises GschedError."""
    action = one(fields, "action")
    if action not in QUEUE_ACTIONS:
        raise BadRequest("there is no such action")
    # Without a name the master would take all of them.
    answers = context.client.queue_control(action, _chosen(fields, "queue", "a queue"), _comment(fields))
    refused = [answer.error for answer in answers if answer.error]
    if refused:
        return _shown(context, request, 409, refused)
    return RedirectResponse(address(PAGE, {"said": "queue"}), 303)


def _chosen(fields: Fields, name: str, what: str) -> list[str]:
    chosen = list(dict.fromkeys(fields.get(name, [])))
    if not chosen:
        raise BadRequest(f"choose {what} first")
    if len(chosen) > MOST_CHOSEN:
        raise BadRequest(f"choose {MOST_CHOSEN} at most")
    return chosen


def _comment(fields: Fields) -> str:
    comment = one(fields, "comment")
    if len(comment) > LONGEST_COMMENT or not comment.isprintable():
        raise BadRequest(f"a comment is one line of {LONGEST_COMMENT} characters at most")
    return comment


def _told(answers: Sequence[Answer]) -> list[str]:
    """Why GPUs that were opened take no jobs all the same, and what could not be done."""
    return [f"{answer.name}: {answer.error or answer.text}" for answer in answers if answer.error or answer.text]
