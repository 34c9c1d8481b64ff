"""The administration in a browser before real daemons, by plain HTTP: hosts, GPUs, queues, configuration, audit log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_cluster import Cluster
from test_story_web import WebProcess, running_web
from test_story_web_browser import fits

from tests.support.browser import browser, missing

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "2:exclusive_process")


@pytest.fixture
def web(cluster: Cluster) -> Iterator[WebProcess]:
    with running_web(cluster) as found:
        found.ask("GET", found.address())
        yield found


def form(web: WebProcess, path: str, **fields: str) -> tuple[int, str, str]:
    csrf = re.search(r'name="csrf" value="([\w-]+)"', web.page("/"))
    assert csrf is not None
    return web.ask("POST", path, {"csrf": csrf[1], **fields})


def mark_of(web: WebProcess, path: str) -> str:
    found = re.search(r'name="mark" value="(\w+)"', web.page(path))
    assert found is not None
    return found[1]


def test_hosts_gpus_and_queues_are_closed_and_opened(cluster: Cluster, web: WebProcess) -> None:
    assert 'href="/administration"' in web.page("/")
    text = web.page("/administration")
    assert "connected" in text and "The master runs on" in text
    host = cluster.host
    assert form(web, "/administration/hosts", action="close", host=host, comment="<b>new</b> disk")[2].endswith(
        "=close"
    )
    assert "closed" in cluster.run("ghosts", host).stdout
    assert "&lt;b&gt;new&lt;/b&gt; disk" in web.page("/administration")
    assert form(web, "/administration/hosts", action="open", host=host)[0] == 303
    assert form(web, "/administration/hosts", action="gpu-close", gpu=f"{host}:1", comment="fan")[0] == 303
    cluster.until(lambda: "closed" in re.findall(r'badge (\w+)"', web.page("/administration")), "it is not closed")
    assert "fan" in cluster.run("ghosts", "-gpu", "-l", host).stdout
    assert form(web, "/administration/hosts", action="gpu-open", gpu=f"{host}:1")[0] in (200, 303)
    assert form(web, "/administration/queues", action="inactivate", queue="normal")[0] == 303
    assert "Open:Inact" in cluster.run("gqueues", "normal").stdout
    assert form(web, "/administration/queues", action="activate", queue="normal")[0] == 303
    for fields in ({"action": "close"}, {"action": "erase", "host": host}, {"action": "close", "host": "nosuch"}):
        assert form(web, "/administration/hosts", **fields)[0] in (400, 404), fields
    assert form(web, "/administration/queues", action="close")[0] == 400, "not all of them"
    log = web.page("/administration/log?text=host")
    assert "host close" in log and "&lt;b&gt;new&lt;/b&gt; disk" in log


def test_a_change_of_a_file_is_tried_and_then_made(cluster: Cluster, web: WebProcess) -> None:
    folder = Path(cluster.env["GSCHED_ENVDIR"])
    file, path = folder / "lsb.params", "/administration/files/lsb.params"
    before = file.read_text()
    assert "There are no errors in the files" in web.page("/administration/files")
    wrong = before.replace("End Parameters", "EFFICIENCY_MIN_RUN = many\nEnd Parameters")
    line = wrong.splitlines().index("EFFICIENCY_MIN_RUN = many") + 1
    for action in ("try", "apply"):
        status, text, _ = form(web, path, action=action, text=wrong, mark=mark_of(web, path))
        assert (
            status == 400
            and f"line {line}" in text
            and "EFFICIENCY_MIN_RUN" in text
            and "Nothing has been written" in text
        )
        assert file.read_text() == before
    good = before.replace("End Parameters", "EFFICIENCY_MIN_RUN = 77\r\nEnd Parameters")
    status, text, _ = form(web, path, action="try", text=good, mark=mark_of(web, path))
    assert status == 200 and "Nothing is wrong with this text" in text and file.read_text() == before
    stale = mark_of(web, path)
    mode = file.stat().st_mode
    status, text, _ = form(web, path, action="apply", text=good, mark=stale)
    assert status == 200 and "The master has switched" in text
    assert file.read_text() == good.replace("\r\n", "\n") and file.stat().st_mode == mode
    assert "EFFICIENCY_MIN_RUN = 77" in cluster.run("gparams", "-a").stdout
    assert form(web, path, action="apply", text=before, mark=stale)[0] == 409, "somebody has changed it meanwhile"
    assert file.read_text() != before
    assert form(web, path, action="apply", text=before, mark=mark_of(web, path))[0] == 200
    assert file.read_text() == before
    assert [each.name for each in folder.iterdir() if each.name.endswith(".new")] == []


def test_what_the_master_refuses_is_taken_back(cluster: Cluster, web: WebProcess) -> None:
    file, path = Path(cluster.env["GSCHED_ENVDIR"]) / "lsf.conf", "/administration/files/lsf.conf"
    before = file.read_text()
    moved = re.sub(r"(?m)^LSB_SHAREDIR=.*$", f"LSB_SHAREDIR={cluster.folder}/elsewhere", before)
    status, text, _ = form(web, path, action="apply", text=moved, mark=mark_of(web, path))
    assert status == 409 and "while the daemons run" in text
    assert file.read_text() == before


@pytest.mark.parametrize("name", ["..%2f..%2fetc%2fpasswd", "passwd", ".master", "%2e%2e", "lsb.params%00"])
def test_no_other_file_is_shown_or_written(cluster: Cluster, web: WebProcess, name: str) -> None:
    for method, fields in (("GET", None), ("POST", {"action": "apply", "text": "x", "mark": "y"})):
        status, text, _ = (
            web.ask("GET", f"/administration/files/{name}")
            if method == "GET"
            else form(web, f"/administration/files/{name}", **(fields or {}))
        )
        assert status == 404 and "root:" not in text


def test_read_only_pages_show_and_change_nothing(cluster: Cluster) -> None:
    web = WebProcess(cluster, "--read-only")
    web.ask("GET", web.address())
    for path in ("/administration", "/administration/files", "/administration/files/lsb.params", "/administration/log"):
        assert "<button" not in web.page(path).replace("<button>Find", "")
    for path in ("hosts", "queues", "apply", "files/lsb.params"):
        assert web.ask("POST", f"/administration/{path}", {"action": "close"})[0] in (404, 405)
    web.end()


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=f"needs {' and '.join(missing())}")
def test_in_a_browser_it_is_as_wide_as_the_screen(module_cluster: Callable[..., Cluster]) -> None:
    cluster = module_cluster("--sim-gpus", "8:exclusive_process", "--hosts", "gpu01,gpu02")
    cluster.run("gadmin", "hclose", "-C", "new power supply", "gpu02")
    cluster.run("gadmin", "gpuclose", "-C", "fan", "gpu01:3")
    cluster.run("gkill", "999", check=False)
    web = WebProcess(cluster, port=True)
    with browser() as window:
        address = web.address()
        window.open(web.place + address)
        window.until(lambda: window.url == f"{web.place}/", "the page behind the address is not left")
        names = {"": "administration", "/files": "files", "/files/lsb.params": "file", "/log": "audit"}
        for path, name in names.items():
            window.open(f"{web.place}/administration{path}")
            fits(window, f"administration-{name}")
        assert window.logged() == []
    web.end()
