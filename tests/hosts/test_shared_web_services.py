"""Jobs' services behind `gsched web` of a shared cluster: names of their own, their owner alone, websockets too."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from netlab import Lab
from netlab_cluster import SharedCluster, shared_cluster
from netlab_web import SETTINGS, LabBrowser, certify_web, prepare_host, start_web
from web_visitor import DOMAIN, PORT, ServiceVisit, opened, password_of

from tests.support.browser import missing

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

NewBrowser = Callable[[], LabBrowser]
CHROMIUM = Path(__file__).with_name("lab_chromium.py")
PROGRAM = Path(__file__).parents[1] / "support" / "small_service.py"


@pytest.fixture(scope="module")
def shared(module_lab: Lab) -> SharedCluster:
    """h1 has the master and the pages, h2 the jobs; browsers are on h2."""
    hosts = [module_lab.host("h1"), module_lab.host("h2")]
    prepare_host(hosts[0], ["h1"])
    settings = {**SETTINGS, "GSCHED_WEB_NAMES": f'"h1 *.{DOMAIN}"'}
    cluster = shared_cluster(module_lab, hosts, settings=settings)
    start_web(cluster, hosts[0])
    return cluster


@pytest.fixture
def browser(shared: SharedCluster) -> Iterator[NewBrowser]:
    made: list[LabBrowser] = []

    def new() -> LabBrowser:
        made.append(LabBrowser(shared, shared.hosts[1], shared.hosts[0]))
        return made[-1]

    yield new
    for each in made:
        each.end()


def start_service(shared: SharedCluster, *options: str) -> int:
    """Of alice, on h2; its job, when it answers."""
    number = shared.submit(*("-m", "h2", "--service", "auto"), *options, f"exec '{sys.executable}' -B '{PROGRAM}'")
    long = ("gjobs", "-l", str(number))
    shared.until(lambda: "It answers" in shared.run(*long, user="alice").stdout, "it does not answer")
    return number


@pytest.fixture(scope="module")
def job(shared: SharedCluster) -> int:
    """Alice's, on h2, with a service that bob may use, too."""
    return start_service(shared, "--service-users", "bob")


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


def test_a_host_runs_services_of_several_jobs(shared: SharedCluster, job: int) -> None:
    """Each has a port of its own; what tells of another's may be read by its agent alone."""
    second = start_service(shared)
    ports = {shared.field(each, "service_port") for each in (job, second)}
    assert len(ports) == 2
    shared.run("gkill", str(second), user="alice")


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=f"needs {' and '.join(missing())}")
def test_in_a_real_browser_a_page_of_another_job_gets_nothing(shared: SharedCluster, job: int) -> None:
    """Names of services are of one site here, so the browser sends the other service's cookie along: as the link shows,
    which opens a page without coming in again. What it says of where a request comes from is what they are refused by.
    """
    evil = start_service(shared)
    words = [f"https://h1:{PORT}", DOMAIN, "alice", password_of("alice"), str(evil), str(job)]
    command = [sys.executable, str(CHROMIUM), *words]
    done = shared.hosts[1].run(command, env={"PYTHONPATH": str(CHROMIUM.parents[2])}, check=True)
    told = json.loads(done.stdout)
    assert told["own"] == ["basic 200"] * 4 + ["open"]
    assert told["asked"] == ["refused"] * 5
    assert '"method":"GET"' in told["linked"]
    assert "link=1" in told["seen"] and not any("foreign" in query for query in told["seen"])
    assert told["posted"].strip() == "The request does not come from a page of this service."
    shared.run("gkill", str(evil), user="alice")


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
