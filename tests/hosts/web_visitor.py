"""A browser's part of the talk with `gsched web` of a shared cluster: a process on any host asks (web_client.py)."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.parse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

CLIENT = Path(__file__).with_name("web_client.py")
PORT = 8443
COOKIE = "__Host-gsched_service"
DOMAIN = "jobs.example.net"
"""Of the names of services: of one site, as browsers see it."""


def password_of(user: str) -> str:
    return f"secret of {user}"


class WebAnswer(NamedTuple):
    """What came back; header names in lower case."""

    status: int
    headers: list[tuple[str, str]]
    text: str

    def header(self, name: str) -> str:
        return next((value for each, value in self.headers if each == name), "")


class WebVisitor:
    """`process` runs web_client.py; `server`: the host that is asked; `socket`: of a proxy there, not its port."""

    def __init__(self, process: subprocess.Popen[str], server: str, *, socket: str = "") -> None:
        self.origin = f"https://{server}:{PORT}"
        self.cookie = ""
        self._where = {"host": server, "port": PORT, "socket": socket}
        self._process = process

    def end(self) -> None:
        """Log out and close it."""
        self.ask("POST", "/leave")
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def ask(
        self,
        method: str,
        path: str,
        body: str = "",
        headers: Sequence[tuple[str, str]] = (),
        *,
        without: Sequence[str] = (),
    ) -> WebAnswer:
        """A request; `headers` come behind a browser's, of which those in `without` are left out."""
        usual = {
            "host": self.origin.removeprefix("https://"),
            "accept": "text/html",
            "cookie": f"__Host-gsched={self.cookie}" if self.cookie else "",
            "origin": self.origin if method == "POST" else "",
            "content-type": "application/x-www-form-urlencoded" if method == "POST" else "",
        }
        said = [(name, value) for name, value in usual.items() if value and name not in without]
        return self._told({"method": method, "path": path, "headers": [*said, *headers], "body": body})

    def say(self, address: str, text: str, origin: str, headers: Sequence[tuple[str, str]] = ()) -> WebAnswer:
        """What is answered to a text on a websocket of that address; the status of a refusal, or 101."""
        asked = {"method": "SOCKET", "path": address, "headers": headers, "body": text, "origin": origin}
        return self._told(asked)

    def _told(self, asked: dict[str, object]) -> WebAnswer:
        asked |= self._where
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        return WebAnswer(told["status"], [(name.lower(), value) for name, value in told["headers"]], told["text"])

    def page(self, path: str, **options: object) -> str:
        answer = self.ask("GET", path, **options)  # type: ignore[arg-type]
        assert answer.status == 200, f"{path}: {answer.status}\n{answer.text}"
        return answer.text

    def log_in(self, user: str, password: str | None = None, **options: object) -> WebAnswer:
        words = {"user": user, "password": password_of(user) if password is None else password, "onward": "/jobs"}
        answer = self.ask("POST", "/login", urllib.parse.urlencode(words), **options)  # type: ignore[arg-type]
        if found := re.match(r"__Host-gsched=([\w-]+);", answer.header("set-cookie")):
            self.cookie = found[1]
        return answer

    def entered(self, user: str) -> Self:
        answer = self.log_in(user)
        assert (answer.status, answer.header("location")) == (303, "/jobs"), answer
        return self

    @property
    def csrf(self) -> str:
        found = re.search(r'name="csrf" value="([\w-]+)"', self.page("/"))
        assert found is not None
        return found[1]

    def send(self, path: str, **fields: str) -> WebAnswer:
        """A form, with its token."""
        return self.ask("POST", path, urllib.parse.urlencode({"csrf": self.csrf, **fields}))


class ServiceVisit:
    """A browser that looks at a job's service; `cookie`: of the service's name; `name`: of the pages."""

    def __init__(self, browser: WebVisitor, job: int, cookie: str = "", name: str = DOMAIN) -> None:
        self.host = f"job-{job}.{name}:{PORT}"
        self.cookie = cookie
        self._browser = browser

    def ask(self, method: str, path: str, *headers: tuple[str, str], body: str = "") -> WebAnswer:
        own = [("host", self.host), *([("cookie", f"{COOKIE}={self.cookie}")] if self.cookie else [])]
        return self._browser.ask(method, path, body, [*own, *headers], without=["host", "cookie", "origin"])

    def say(self, text: str, origin: str = "") -> WebAnswer:
        """What the service answers on a websocket."""
        headers = [("cookie", f"{COOKIE}={self.cookie}")] if self.cookie else []
        return self._browser.say(f"wss://{self.host}/echo", text, origin or f"https://{self.host}", headers)


def opened(browser: WebVisitor, job: int, name: str = DOMAIN) -> ServiceVisit:
    """As the button on the job's page does it."""
    led = browser.ask("GET", f"/jobs/{job}/service")
    assert led.status == 303, led
    address = urllib.parse.urlsplit(led.header("location"))
    assert (address.scheme, address.netloc) == ("https", f"job-{job}.{name}:{PORT}")
    visit = ServiceVisit(browser, job, name=name)
    path = f"{address.path}?{address.query}"
    assert visit.ask("GET", path, ("sec-fetch-dest", "empty")).status == 403, "a script does not come in by it"
    entered = visit.ask("GET", path, ("sec-fetch-dest", "document"))
    cookie = entered.header("set-cookie")
    assert entered.status == 200 and cookie.startswith(f"{COOKIE}="), entered
    assert "Secure" in cookie and "HttpOnly" in cookie and "Domain" not in cookie
    visit.cookie = cookie.partition(";")[0].partition("=")[2]
    assert visit.cookie.partition(".")[0] not in address.query, "the token's alias is not the cookie's"
    again = ServiceVisit(browser, job, name=name).ask("GET", path)
    assert again.status == 401 and not again.header("set-cookie"), "the token works once"
    return visit
