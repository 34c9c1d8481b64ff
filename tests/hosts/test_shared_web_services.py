"""Jobs' services behind `gsched web` of a shared cluster: names of their own, their owner alone, websockets too."""

from __future__ import annotations

import json
import shutil
import sys
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from netlab import Lab, unavailable
from netlab_cluster import SharedCluster, shared_cluster
from netlab_web import PORT, SETTINGS, LabBrowser, WebAnswer, certify_web, prepare_host, start_web

from tests.support.folders import new_folder

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

NewBrowser = Callable[[], LabBrowser]
PROGRAM = Path(__file__).parents[1] / "support" / "small_service.py"
COOKIE = "__Host-gsched_service"


@pytest.fixture(scope="module")
def shared() -> Iterator[SharedCluster]:
    """h1 has the master and the pages, h2 the jobs; browsers are on h2."""
    if unavailable():
        pytest.skip(unavailable())
    folder = new_folder()
    with Lab(folder) as lab:
        hosts = [lab.host("h1"), lab.host("h2")]
        prepare_host(hosts[0], ["h1"])
        cluster = shared_cluster(lab, hosts, settings={**SETTINGS, "GSCHED_WEB_NAMES": '"h1 *.h1"'})
        start_web(cluster, hosts[0])
        yield cluster
    for log in sorted(folder.glob("*/var/log/gsched/*.log")):
        print(f"-- {log.relative_to(folder)}", *log.read_text(errors="replace").splitlines()[-60:], sep="\n")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def browser(shared: SharedCluster) -> Iterator[NewBrowser]:
    made: list[LabBrowser] = []

    def new() -> LabBrowser:
        made.append(LabBrowser(shared, shared.hosts[1], shared.hosts[0]))
        return made[-1]

    yield new
    for each in made:
        each.end()


@pytest.fixture(scope="module")
def job(shared: SharedCluster) -> int:
    """Alice's, on h2, with a service that bob may use, too."""
    number = shared.submit(
        *("-m", "h2", "--service", "auto", "--service-users", "bob"), f"exec '{sys.executable}' -B '{PROGRAM}'"
    )
    shared.until(
        lambda: "It answers" in shared.run("gjobs", "-l", str(number), user="alice").stdout, "it does not answer"
    )
    return number


class ServiceVisit:
    """A browser that looks at a job's service; `cookie`: of the service's name; `name`: of the pages."""

    def __init__(self, browser: LabBrowser, job: int, cookie: str = "", name: str = "h1") -> None:
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


def opened(browser: LabBrowser, job: int, name: str = "h1") -> ServiceVisit:
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


def test_its_owner_uses_it(shared: SharedCluster, browser: NewBrowser, job: int) -> None:
    alice = browser().entered("alice")
    assert f"/jobs/{job}/service" in alice.page(f"/jobs/{job}")
    visit = opened(alice, job)
    told = json.loads(visit.ask("GET", "/api/x?y=1", ("x-forwarded-for", "1.2.3.4"), ("gsched-csrf", "x")).text)
    assert told["target"] == ["/api/x", "y=1"]
    sent = dict(told["headers"])
    assert sent["host"].startswith("localhost:") and sent["x-forwarded-host"] == visit.host
    assert sent["x-forwarded-proto"] == "https" and sent["authorization"].startswith("Bearer ")
    assert not {"cookie", "gsched-csrf", "gsched-service-alias", "x-forwarded-for"} & sent.keys()
    posted = visit.ask("POST", "/save", ("origin", f"https://{visit.host}"), body="x" * 100_000)
    assert json.loads(posted.text)["body"] == 100_000
    for origin in (alice.origin, f"http://{visit.host}", "null"):
        assert visit.ask("POST", "/save", ("origin", origin), body="x").status == 403
    foreign = [("sec-fetch-site", "same-site"), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")]
    assert visit.ask("GET", "/x", *foreign).status == 403, "another job's page has made its browser ask"
    said = visit.say("hello")
    assert (said.status, said.text) == (101, "hello")
    assert visit.say("hello", origin=alice.origin).status == 403
    cookies = [value for name, value in visit.ask("GET", "/cookies").headers if name == "set-cookie"]
    assert cookies == ["own=1; Path=/", "wide=1; Path=/"], "none of gsched's, and none for the pages' own name"


def test_whom_its_owner_names_uses_it_and_nobody_else(shared: SharedCluster, browser: NewBrowser, job: int) -> None:
    bob, carol = browser().entered("bob"), browser().entered("carol")
    visit = opened(bob, job)
    assert visit.ask("GET", "/x").status == 200 and visit.say("bob").text == "bob"
    hers = opened(carol, job)
    refused = hers.ask("GET", "/x")
    assert refused.status in (403, 404) and "headers" not in refused.text
    assert hers.say("carol").status != 101


def test_without_the_session_that_opened_it_there_is_nothing(
    shared: SharedCluster, browser: NewBrowser, job: int
) -> None:
    alice, bob = browser().entered("alice"), browser().entered("bob")
    visit, his = opened(alice, job), opened(bob, job)
    alias, _, secret = visit.cookie.partition(".")
    for cookie in ("", "x", secret, f"{alias}.x", f"{his.cookie.partition('.')[0]}.{secret}", alice.cookie):
        stranger = ServiceVisit(bob, job, cookie)
        assert stranger.ask("GET", "/x").status == 401, cookie
        assert stranger.say("x").status in (401, 403), cookie
    other = ServiceVisit(alice, job + 1000, visit.cookie)
    assert other.ask("GET", "/x").status == 401, "the cookie is for one job"
    assert alice.ask("GET", "/jobs", headers=[("host", visit.host)], without=["host"]).status == 401
    assert bob.ask("GET", "/", headers=[("host", f"job-{job}.evil.example")], without=["host"]).status == 421
    assert visit.ask("GET", "/x").status == 200
    alice.ask("POST", "/leave")
    assert visit.ask("GET", "/x").status == 401 and visit.say("x").status == 403
    assert his.ask("GET", "/x").status == 200


def test_a_new_certificate_is_taken_while_it_runs(shared: SharedCluster, browser: NewBrowser) -> None:
    """Whoever trusts the new one alone can connect then, and sessions go on."""
    h1 = shared.hosts[0]
    alice = browser().entered("alice")
    certify_web(h1, ["h1"])
    again = browser()
    again.cookie = alice.cookie
    shared.until(lambda: again.ask("GET", "/jobs").status == 200, "the old certificate is shown")
    assert alice.ask("GET", "/jobs").status == 0, "it does not trust the new one"
    assert "the certificate is a new one" in shared.log(h1, "web")
    assert "PRIVATE KEY" not in shared.log(h1, "web")
