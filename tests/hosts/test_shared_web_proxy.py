"""Pages and services of jobs behind a real reverse proxy on another host, which proves users and names them."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from netlab import Lab
from netlab_cluster import SharedCluster, shared_cluster
from netlab_web import CERTIFICATE, KEY, SETTINGS, LabBrowser, prepare_host, start_web
from test_shared_web_services import PROGRAM, ServiceVisit, opened
from web_visitor import PORT, WebAnswer, password_of

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

PROXY = Path(__file__).with_name("small_proxy.py")
PROXIED = {
    **{name: value for name, value in SETTINGS.items() if name != "GSCHED_WEB_PAM"},
    "GSCHED_WEB_PROXIES": "10.77.0.2",
    "GSCHED_WEB_NAMES": '"h2 *.h2"',
}


class ProxiedBrowser(LabBrowser):
    """On h1, before the proxy on h2: it says the user's password with each request."""

    def __init__(self, cluster: SharedCluster, user: str) -> None:
        super().__init__(cluster, cluster.hosts[0], cluster.hosts[1])
        said = base64.b64encode(f"{user}:{password_of(user)}".encode()).decode()
        self._proof = [("authorization", f"Basic {said}")]

    def ask(
        self,
        method: str,
        path: str,
        body: str = "",
        headers: Sequence[tuple[str, str]] = (),
        *,
        without: Sequence[str] = (),
    ) -> WebAnswer:
        return super().ask(method, path, body, [*self._proof, *headers], without=without)

    def say(self, address: str, text: str, origin: str, headers: Sequence[tuple[str, str]] = ()) -> WebAnswer:
        return super().say(address, text, origin, [*self._proof, *headers])


@pytest.fixture(scope="module")
def shared(module_lab: Lab) -> SharedCluster:
    """h1 has the master and the pages, h2 the proxy and the jobs."""
    h1, h2 = module_lab.host("h1"), module_lab.host("h2")
    prepare_host(h1, ["h1"])
    prepare_host(h2, ["h2"])
    cluster = shared_cluster(module_lab, [h1, h2], settings=PROXIED)
    start_web(cluster, h1)
    (h2.folder / "etc/upstream.crt").write_bytes((h1.folder / CERTIFICATE.lstrip("/")).read_bytes())
    words = [str(PORT), CERTIFICATE, KEY, "h1", str(PORT), "/etc/upstream.crt", "Remote-User"]
    proxy = h2.popen([sys.executable, "-I", str(PROXY), *words], stdout=subprocess.PIPE, text=True)
    assert proxy.stdout is not None and proxy.stdout.readline() == "ready\n"
    return cluster


@pytest.fixture
def browser(shared: SharedCluster) -> Iterator[Callable[[str], ProxiedBrowser]]:
    made: list[ProxiedBrowser] = []

    def new(user: str) -> ProxiedBrowser:
        made.append(ProxiedBrowser(shared, user))
        return made[-1]

    yield new
    for each in made:
        each.end()


@pytest.fixture(scope="module")
def job(shared: SharedCluster) -> int:
    """Alice's, with a service."""
    number = shared.submit("-m", "h2", "--service", "auto", f"exec '{sys.executable}' -B '{PROGRAM}'")
    shared.until(
        lambda: "It answers" in shared.run("gjobs", "-l", str(number), user="alice").stdout, "it does not answer"
    )
    return number


def test_the_proxy_says_who_asks_whatever_the_browser_says(
    shared: SharedCluster, browser: Callable[[str], ProxiedBrowser]
) -> None:
    alice = browser("alice")
    for headers in ([], [("Remote-User", "bob")], [("remote_user", "bob")], [("REMOTE-USER", "root")]):
        assert "<strong>alice</strong>" in alice.page("/", headers=headers)
    stranger = LabBrowser(shared, shared.hosts[0], shared.hosts[1])
    assert stranger.ask("GET", "/", headers=[("Remote-User", "alice")]).status == 401
    stranger.end()


def test_a_service_is_its_owners_behind_the_proxy(browser: Callable[[str], ProxiedBrowser], job: int) -> None:
    alice, bob = browser("alice"), browser("bob")
    visit = opened(alice, job, "h2")
    told = json.loads(visit.ask("GET", "/api/x?y=1", ("Remote-User", "bob")).text)
    assert told["target"] == ["/api/x", "y=1"]
    sent = dict(told["headers"])
    assert sent["x-forwarded-host"] == visit.host and sent["authorization"].startswith("Bearer ")
    assert not {"cookie", "remote-user"} & sent.keys()
    posted = visit.ask("POST", "/save", ("origin", f"https://{visit.host}"), body="x" * 100_000)
    assert json.loads(posted.text)["body"] == 100_000
    said = visit.say("hello")
    assert (said.status, said.text) == (101, "hello")
    stolen = ServiceVisit(bob, job, visit.cookie, "h2")
    assert stolen.ask("GET", "/x").status == 401 and stolen.say("x").status in (401, 403)
    hers = opened(bob, job, "h2")
    refused = hers.ask("GET", "/x")
    assert refused.status in (403, 404) and "headers" not in refused.text and hers.say("bob").status != 101
