"""Run on a host of a lab: in a real browser a page of one job's service asks for another's in all ways that there are.

    lab_chromium.py ORIGIN DOMAIN USER PASSWORD OWN-JOB OTHER-JOB

Prints as JSON what came of it: see `Told`.
"""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

from tests.support.browser import Browser, browser

SHOW = """
return new Promise((found) => {
  const made = document.createElement(arguments[0]);
  made.onload = made.onerror = () => found("done");
  made[arguments[0] === "link" ? "href" : "src"] = arguments[1];
  made.rel = "stylesheet";
  document.body.append(made);
})
"""
FETCH = """
return fetch(arguments[0], {credentials: "include", mode: arguments[1], method: arguments[2]}).then(
  (answer) => `${answer.type} ${answer.status}`, () => "refused")
"""
SOCKET = """
return new Promise((found) => {
  const talk = new WebSocket(arguments[0]);
  talk.onopen = () => found("open");
  talk.onerror = () => found("refused");
})
"""
SUBMIT = """
const form = document.createElement("form");
form.action = arguments[0];
form.method = arguments[1];
document.body.append(form);
form.submit();
"""
FOLLOW = """
const link = document.createElement("a");
link.href = arguments[0];
document.body.append(link);
link.click();
"""
SHOWN = ("img", "script", "iframe", "link")


class Told(NamedTuple):
    """`own`: how a page's own requests went; `asked`: those for the other service; `posted`: the page that a form led
    to; `linked`: that behind a link; `seen`: queries that the other service was asked.
    """

    own: list[str]
    asked: list[str]
    posted: str
    linked: str
    seen: list[str]


def main() -> None:
    origin, domain, user, password, own_job, other_job = sys.argv[1:]
    server, port = origin.removeprefix("https://").split(":")
    arguments = ["--ignore-certificate-errors", f"--host-resolver-rules=MAP *.{domain} {server}"]
    own, other = (f"https://job-{job}.{domain}:{port}" for job in (own_job, other_job))
    with browser(arguments=arguments) as window:
        window.open(f"{origin}/")
        window.type("#user", user)
        window.type("#password", password)
        window.click("button.first")
        window.until(lambda: window.url == f"{origin}/", "nobody is let in")
        for job, name in ((other_job, other), (own_job, own)):
            page = f"{origin}/jobs/{job}"
            window.until(lambda page=page: has_link(window, page), "no link to the service")
            window.run("document.querySelector('#service a.button').target = '_self'")
            window.click("#service a.button")
            window.until(lambda name=name: window.url == f"{name}/", "the link does not lead to the service")
        print(json.dumps(told(window, own, other)._asdict()))


def has_link(window: Browser, page: str) -> object:
    """Whether the page, opened anew, has a link to the service: one that has just begun is told a moment later."""
    window.open(page)
    return window.run("return document.querySelector('#service a.button') !== null")


def told(window: Browser, own: str, other: str) -> Told:
    asked_of_own = ask(window, own, "own")
    asked = ask(window, other, "foreign")
    window.run(SUBMIT, f"{other}/x?foreign=post", "POST")
    window.until(lambda: window.url.startswith(other), "the form leads nowhere")
    posted = window.text()
    window.open(f"{own}/")
    window.run(FOLLOW, f"{other}/x?link=1")
    window.until(lambda: window.url.startswith(other), "the link leads nowhere")
    linked = window.text()
    window.open(f"{other}/seen")
    return Told(asked_of_own, asked, posted, linked, json.loads(window.text()))


def ask(window: Browser, service: str, word: str) -> list[str]:
    """As elements of the page, by script in both ways, by a websocket."""
    for what in SHOWN:
        window.run(SHOW, what, f"{service}/x?{word}={what}")
    asked = [(mode, method) for mode in ("no-cors", "cors") for method in ("GET", "POST")]
    found = [str(window.run(FETCH, f"{service}/x?{word}={mode}-{method}", mode, method)) for mode, method in asked]
    return [*found, str(window.run(SOCKET, f"{service.replace('https:', 'wss:')}/echo"))]


main()
