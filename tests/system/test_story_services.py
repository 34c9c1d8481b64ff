"""Jobs with a page of their own before real daemons: told a port and a secret, reached by `gsched web` alone."""

from __future__ import annotations

import http.client
import json
import re
import shlex
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from live_cluster import PATIENCE_S, Cluster
from test_story_web import WebProcess
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.support.browser import browser as chromium
from tests.support.browser import missing

pytestmark = pytest.mark.system

SERVICE = Path(__file__).parents[1] / "support" / "small_service.py"
COMMAND = f"exec {shlex.join([sys.executable, str(SERVICE)])}"


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "1:exclusive_process")


@pytest.fixture(scope="module")
def job(cluster: Cluster) -> int:
    found = cluster.submit("--service", "auto", COMMAND)
    cluster.starts(found)
    return found


class Browser(WebProcess):
    """`gsched web` on a port, and a browser that has come in."""

    def __init__(self, cluster: Cluster, *words: str) -> None:
        super().__init__(cluster, *words, port=True)
        address = self.address()
        self.HOST = self.place.removeprefix("http://")
        self.port = int(self.HOST.partition(":")[2])
        self.services: dict[int, str] = {}
        assert self.ask("GET", address)[0] == 200

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)

    def name(self, job: int) -> str:
        return f"job-{job}.localhost:{self.port}"

    def open(self, job: int) -> str:
        """The address to which the job's page leads."""
        status, text, where = self.ask("GET", f"/jobs/{job}/service")
        assert status == 303, text
        place, slash, path = where.removeprefix("http://").partition("/")
        assert place == self.name(job)
        return slash + path

    def come_in(self, job: int) -> None:
        answer = self.visit(job, self.open(job))
        assert answer.status == 200, answer.data
        (cookie,) = answer.headers.get_all("set-cookie")
        assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Domain" not in cookie
        self.services[job] = cookie.partition(";")[0]

    def visit(self, job: int, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Any:
        connection = self.connection()
        headers = {"host": self.name(job), "cookie": self.services.get(job, ""), **headers}
        connection.request(method, path, body, headers)
        answer: Any = connection.getresponse()
        answer.data = answer.read()
        connection.close()
        return answer

    def told(
        self, job: int, path: str = "/told", method: str = "GET", body: bytes | None = None, **headers: str
    ) -> Any:
        """What the service was sent."""
        answer = self.visit(job, path, method, body, **headers)
        assert answer.status == 200, answer.data
        return json.loads(answer.data)

    def socket(self, job: int, *, origin: str = "", **words: Any) -> ClientConnection:
        name = self.name(job)
        return connect(
            f"ws://{name}/echo",
            sock=socket.create_connection(("127.0.0.1", self.port)),
            origin=origin or f"http://{name}",  # type: ignore[arg-type]
            additional_headers={"cookie": self.services.get(job, "")},
            max_size=None,
            open_timeout=PATIENCE_S,
            **words,
        )


@pytest.fixture(scope="module")
def module_browser(cluster: Cluster) -> Iterator[Browser]:
    found = Browser(cluster)
    yield found
    if found.process.poll() is None:
        found.end()


@pytest.fixture
def browser(cluster: Cluster, module_browser: Browser, job: int) -> Browser:
    cluster.until(lambda: "SERVICE" in cluster.run("gjobs", "-l", str(job)).stdout, "it is not known to have a service")
    cluster.until(lambda: "answers on port" in cluster.run("gjobs", "-l", str(job)).stdout, "it does not answer")
    if job not in module_browser.services:
        module_browser.come_in(job)
    return module_browser


def _values(told: Any, name: str) -> list[str]:
    return [value for each, value in told["headers"] if each == name]


def test_its_owner_is_led_to_it_and_it_sees_a_browser_of_its_own_host(
    cluster: Cluster, browser: Browser, job: int
) -> None:
    told = browser.told(job, "/a%20b//c?x=%2F&y", cookie=f"{browser.services[job]}; own=1; {browser.cookie}")
    assert told["target"] == ["/a%20b//c", "x=%2F&y"]
    (host,) = _values(told, "host")
    assert re.fullmatch(r"localhost:2[0-9]{4}", host)
    assert _values(told, "cookie") == ["own=1"], "gsched's own cookies are not told"
    (authorization,) = _values(told, "authorization")
    assert re.fullmatch(r"Bearer [\w-]{43}", authorization)
    assert _values(told, "x-forwarded-host") == [browser.name(job)]
    own = browser.told(
        job, authorization="token mine", origin=f"http://{browser.name(job)}", method="POST", body=b"x" * 200_000
    )
    assert (_values(own, "authorization"), _values(own, "origin"), own["body"]) == (
        ["token mine"],
        [f"http://{host}"],
        200_000,
    )
    long = cluster.run("gjobs", "-l", str(job)).stdout.replace("\n" + " " * 21, "")
    assert f"It answers on port {host.partition(':')[2]} of host {cluster.host} since" in long
    assert f"URL <{browser.place}/jobs/{job}/service>" in long
    secret = authorization.removeprefix("Bearer ")
    everywhere = [
        long,
        *(cluster.run(*words).stdout for words in (["ghist", "-l", str(job)], ["gjobs", "-json", "-a"])),
    ]
    assert not any(secret in text for text in everywhere)
    assert f'href="/jobs/{job}/service"' in browser.page(f"/jobs/{job}")
    assert "Its service answers on port" in browser.page(f"/jobs/{job}").replace("&#39;", "'")


def test_websockets_go_through_both_ways(browser: Browser, job: int) -> None:
    with browser.socket(job, subprotocols=["one.example", "two.example"]) as talk:
        assert talk.subprotocol == "one.example"
        for message in ("hello", "세계", b"\0\xff", "x" * 3_000_000, b"y" * 3_000_000, ""):
            talk.send(message)
            assert talk.recv(PATIENCE_S) == message
        talk.send("bye")
        with pytest.raises(ConnectionClosed) as closed:
            talk.recv(PATIENCE_S)
        assert closed.value.rcvd is not None and (closed.value.rcvd.code, closed.value.rcvd.reason) == (
            4001,
            "as you wish",
        )


def test_nobody_else_gets_in(cluster: Cluster, browser: Browser, job: int) -> None:
    """No cookie, another job's, gsched's own, a used token; another origin; under another name; the pages' forms."""
    other = cluster.submit("--service", "auto", COMMAND)
    path = browser.open(job)
    for cookie in ("", browser.cookie, f"{browser.services[job].partition('=')[0]}=guessed"):
        assert browser.visit(job, "/told", cookie=cookie).status == 401
    assert browser.visit(other, "/told", cookie=browser.services[job]).status == 401
    assert browser.visit(other, path).status == 401, "a token of another job"
    assert browser.visit(job, path).status == 401, "and then it is used up"
    for origin in ("http://127.0.0.1:1", f"http://{browser.HOST}", f"http://{browser.name(other)}", "null"):
        assert browser.visit(job, "/told", origin=origin).status == 403
        with pytest.raises(InvalidStatus):
            browser.socket(job, origin=origin)
    assert browser.visit(job, "/told", "POST", b"x").status == 403, "no origin at all"
    assert browser.visit(job, "/told", **{"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}).status == 403
    for name in (f"job-{job}.localhost.example", f"job-{job}.example", f"x.job-{job}.localhost", "job-0.localhost"):
        assert browser.visit(job, "/told", host=f"{name}:{browser.port}").status == 421
    assert browser.visit(job, "/told", host=browser.HOST).status == 401, "its cookie opens none of gsched's pages"
    assert browser.ask("GET", "/jobs/987654/service")[0] == 303
    browser.services[987654] = ""
    browser.come_in(987654)
    assert browser.visit(987654, "/told").status == 404
    cluster.run("gkill", str(other))


def test_what_it_answers_does_not_reach_beyond_its_own_name(browser: Browser, job: int) -> None:
    answer = browser.visit(job, "/cookies")
    assert answer.headers.get_all("set-cookie") == ["own=1; Path=/", "wide=1; Path=/"]
    assert "strict-transport-security" not in answer.headers
    assert answer.headers.get_all("content-security-policy") == ["frame-ancestors 'self'"]
    assert answer.headers.get_all("cross-origin-resource-policy") == ["same-origin"]
    assert browser.visit(job, "/redirect").headers["location"] == "/after?x=1"
    assert browser.visit(job, f"/redirect?to={browser.place}/").headers["location"] == f"{browser.place}/"
    huge = browser.visit(job, "/huge")
    assert huge.status == 503 and b"does not answer as a web server would" in huge.data


def test_who_reads_slowly_keeps_nothing_in_memory_and_holds_up_nobody(
    cluster: Cluster, browser: Browser, job: int
) -> None:
    connections = []
    for _ in range(20):
        connection = browser.connection()
        connection.request("GET", "/endless", None, {"host": browser.name(job), "cookie": browser.services[job]})
        connections.append(connection)
        assert connection.getresponse().read(100_000)
    status = Path(f"/proc/{browser.process.pid}/status")
    held = int(re.findall(r"VmRSS:\s*([0-9]+)", status.read_text())[0])
    assert browser.told(job)["body"] == 0 and browser.page("/")
    for connection in connections:
        connection.close()
    assert held < 400_000, "KiB"


ECHO = """
return new Promise((found, failed) => {
  const talk = new WebSocket(`ws://${location.host}/echo`);
  talk.onopen = () => talk.send("from a page");
  talk.onmessage = (message) => found(message.data);
  talk.onerror = () => failed("no websocket");
})
"""
FETCH = """
return fetch(arguments[0], {credentials: "include", mode: arguments[1], method: arguments[2]}).then(
  (answer) => `${answer.type} ${answer.status}`, () => "refused")
"""
SHOW = """
return new Promise((found) => {
  const made = document.createElement(arguments[0]);
  made.onload = made.onerror = () => found("done");
  made.src = arguments[1];
  document.body.append(made);
})
"""


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=f"needs {' and '.join(missing())}")
def test_in_a_real_browser_links_and_own_frames_work_and_no_others(cluster: Cluster, job: int) -> None:
    """Below localhost each name is a site of its own, so no cookie is sent from another job's page. Where names
    are of one site test_a_page_of_another_job_asks_for_nothing says what is refused.
    """
    other = cluster.submit("--service", "auto", COMMAND)
    for each in (job, other):
        cluster.until(lambda each=each: "answers on" in cluster.run("gjobs", "-l", str(each)).stdout, "it is not there")
    web = WebProcess(cluster, port=True)
    with chromium() as window:
        address = web.address()
        window.open(web.place + address)
        window.until(lambda: window.url == f"{web.place}/", "the page behind the address is not left")
        names = [f"http://job-{each}.localhost:{web.place.rpartition(':')[2]}" for each in (job, other)]
        for each, name in zip((job, other), names, strict=True):
            window.open(f"{web.place}/jobs/{each}")
            window.run("document.querySelector('#service a.button').target = '_self'")
            window.click("#service a.button")
            window.until(lambda name=name: window.url == f"{name}/", "the link does not lead to the service")
        for what in ("iframe", "img", "script"):
            assert window.run(SHOW, what, f"{names[0]}/x?foreign={what}") == "done"
            assert window.run(SHOW, what, f"{names[1]}/x?own={what}") == "done"
        window.run(FETCH, f"{names[0]}/x?foreign=fetch", "no-cors", "GET")
        window.open(f"{names[1]}/seen")
        assert all(f"own={what}" in window.text() for what in ("iframe", "img", "script"))
        window.open(f"{names[0]}/seen")
        assert "foreign" not in window.text() and window.text().startswith("[")
    web.end()
    cluster.run("gkill", str(other))


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=f"needs {' and '.join(missing())}")
def test_in_a_real_browser_it_is_an_origin_of_its_own(cluster: Cluster, job: int) -> None:
    web = WebProcess(cluster, port=True)
    with chromium() as window:
        address = web.address()
        window.open(web.place + address)
        window.until(lambda: window.url == f"{web.place}/", "the page behind the address is not left")
        window.open(f"{web.place}/jobs/{job}")
        window.open(str(window.run("return document.querySelector('#service a.button').href")))
        own = f"http://job-{job}.localhost:{web.place.rpartition(':')[2]}"
        window.until(lambda: window.url == f"{own}/", "it is not led to the service")
        assert '"method":"GET"' in window.text() and "gsched_" not in window.text()
        window.run("document.cookie = 'gsched_evil=1; path=/'; document.cookie = 'wide=1; domain=localhost; path=/'")
        assert window.run("return document.cookie") == "gsched_evil=1", "its session's cookie is not for scripts"
        assert window.run(ECHO) == "from a page"
        assert window.run(FETCH, "/told", "cors", "GET") == "basic 200"
        for path in ("/", f"/jobs/{job}"):
            assert window.run(FETCH, web.place + path, "cors", "GET") == "refused"
        assert window.run(FETCH, f"{web.place}/deeds", "cors", "POST") == "refused"
        window.open(f"{web.place}/jobs/{job}")
        window.until(lambda: f"Job {job}" in window.text("h1"), "gsched's own session does not go on")
        assert window.run(FETCH, f"{own}/told", "cors", "GET") == "refused"
    web.end()


def test_gsched_web_may_be_restarted_and_shows_nothing_where_nothing_may_be_changed(
    cluster: Cluster, browser: Browser, job: int
) -> None:
    second = Browser(cluster, "--read-only")
    assert second.ask("GET", f"/jobs/{job}/service")[0] == 404
    assert second.visit(job, "/told", cookie=browser.services[job]).status == 421
    second.end()
    third = Browser(cluster)
    third.services[job] = browser.services[job]
    assert third.visit(job, "/told").status == 401, "sessions end with the process"
    third.come_in(job)
    with third.socket(job) as talk:
        talk.send("hi")
        assert talk.recv(PATIENCE_S) == "hi"
        assert third.send("/leave") == "/"
        with pytest.raises(ConnectionClosed):
            talk.recv(PATIENCE_S)
    assert third.visit(job, "/told").status == 401, "who has logged out has left its services, too"
    third.end()


def test_it_outlives_its_daemons_and_ends_with_its_job(cluster: Cluster, browser: Browser, job: int) -> None:
    cluster.kill(f"agent-{cluster.host}")
    cluster.kill("master")
    cluster.up()
    cluster.until(lambda: browser.visit(job, "/told").status == 200, "it is not found again")
    cluster.run("gkill", str(job))
    cluster.wait(job)
    gone = browser.visit(job, "/told", accept="text/html")
    assert gone.status == 409 and b"has ended" in gone.data
    assert "It has ended with the job" in cluster.run("gjobs", "-l", str(job)).stdout


def test_a_port_that_somebody_else_has_is_not_taken_for_the_job(cluster: Cluster, module_browser: Browser) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        thief = cluster.submit("--service", str(port), "sleep 1000")
        cluster.starts(thief)
        module_browser.come_in(thief)
        answer = module_browser.visit(thief, "/told")
        assert answer.status == 503
        assert (
            answer.data.decode() == f"port {port} of {cluster.host} is listened on by a process that is not the job's\n"
        )
        assert "It does not answer yet" in cluster.run("gjobs", "-l", str(thief)).stdout
    assert module_browser.visit(thief, "/").data.decode() == f"nothing listens on port {port} of {cluster.host} yet\n"
    cluster.run("gkill", str(thief))
