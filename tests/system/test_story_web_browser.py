"""The pages in a real browser: scripts run under the policy, charts are drawn, keys are enough, nothing is cut."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from live_cluster import Cluster
from test_story_web import WebProcess, running_web

from tests.support.browser import Browser, browser, entered, missing
from tests.support.page_shapes import in_all_shapes

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=f"needs {' and '.join(missing())}"),
]

TAB, ENTER = "\ue004", "\ue007"


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "8:exclusive_process", "--hosts", "gpu01,gpu02")


@pytest.fixture
def web(cluster: Cluster) -> Iterator[WebProcess]:
    with running_web(cluster, port=True) as found:
        yield found


@pytest.fixture
def window(web: WebProcess) -> Iterator[Browser]:
    """A browser that has come in. In the end it must have complained of nothing."""
    address = web.address()  # says the place, too
    with entered(web.place, address) as found:
        yield found
        assert found.logged() == []


def fits(window: Browser, page: str) -> None:
    """Look at the page in all shapes: nothing sticks out, charts are drawn anew."""
    assert len(list(in_all_shapes(window, page))) == 4


def test_a_day_in_the_browser(cluster: Cluster, web: WebProcess, window: Browser) -> None:
    cluster.run("gsched", "sim-gpu", "0-3", "--host", "gpu01", "used_mib=9000", "utilization_percent=87", "power_w=142")
    script = "for i in $(seq 400); do echo iteration $i, loss = 0.$i; sleep 0.2; done; sleep 3000"
    job = cluster.submit("-J", "<img src=x onerror=alert(1)>", "-m", "gpu01", "-R", "rusage[ngpus_excl_p=4]", script)
    cluster.starts(job)
    window.until(
        lambda: str(job) in window.text(".tile.mine .word a"), "the tiles are not brought up to date by themselves"
    )
    assert window.text("#liveness") == "kept up to date"
    fits(window, "cluster")
    gpu = window.run("return document.querySelector('.tile.mine b a').getAttribute('href')")
    for name, path in (("queues", "/queues"), ("gpu", gpu)):
        window.open(web.place + path)
        window.until(lambda: window.text("#liveness") == "kept up to date", "nobody keeps it up to date")
        fits(window, name)
    window.open(f"{web.place}/jobs")
    window.until(lambda: "<img src=x" in window.text("#jobs"), "the job is not listed")
    fits(window, "jobs")
    window.open(f"{web.place}/jobs/{job}")
    window.until(lambda: "loss = 0.3" in window.text("#stdout"), "its output is not shown")
    window.until(lambda: window.run("return document.querySelectorAll('#curves canvas').length") >= 4, "no charts")
    curves = "return document.querySelector('#curves [role=img]').ariaLabel"
    # The first of them may be a reading from before the GPUs were busy.
    window.until(lambda: re.search(r"gpu01:0 \d+ – 87", window.run(curves)), "the curves do not show the GPUs' use")
    window.until(lambda: window.run("return document.querySelectorAll('#plots canvas').length") >= 1, "no plot")
    assert "loss 0.1 – " in window.run("return document.querySelector('#plots [role=img]').ariaLabel")
    fits(window, "job")
    window.run("window.confirm = () => true")
    window.click("button[value=kill]")
    cluster.wait(job)
    window.until(lambda: "TERM_OWNER" in window.text("#job-head"), "its end is not shown by itself")
    assert window.run("return document.querySelector('img')") is None


def test_a_new_job_from_the_form(cluster: Cluster, web: WebProcess, window: Browser) -> None:
    window.open(f"{web.place}/new")
    window.type("textarea[name=command]", "echo 'begun; here'; sleep 3000")
    window.type("input[name=name]", "from-the-page")
    window.type("input[name=run_limit]", "soon")
    window.until(lambda: "soon" in window.text("#problem"), "what is wrong is not said while it is typed")
    window.run("document.querySelector('input[name=run_limit]').value = ''")
    window.type("input[name=gpus]", "2")
    line = "gsub -J from-the-page -gpu num=2"
    window.until(lambda: window.text("#line").startswith(line), "the line is not shown")
    window.until(lambda: window.text("#problem") == "", "it is still said to be wrong")
    window.until(lambda: "At once, on" in window.text("#when"), "nobody says when it could start")
    fits(window, "new-job")
    window.click("#new-job button.first")
    window.until(lambda: "is submitted" in window.text(".notice.good"), "the job's page is not shown")
    window.until(lambda: "begun; here" in window.text("#stdout"), "its output is not shown")
    cluster.end_jobs()


def test_what_is_to_be_done_with_no_job_is_asked_on_the_page(
    cluster: Cluster, web: WebProcess, window: Browser
) -> None:
    window.open(f"{web.place}/jobs")
    assert window.run("return document.querySelector('#jobs td.empty a').getAttribute('href')") == "/new"
    job = cluster.submit("-H", "sleep", "3000")
    window.until(lambda: str(job) in window.text("#jobs"), "the job is not listed")
    for button in ("button[value=kill]", "button[data-compare]"):
        window.open(f"{web.place}/jobs")
        window.click(button)
        window.until(lambda: "Choose a job first" in window.text("#choose-first"), "nobody says what is missing")
        assert window.url == f"{web.place}/jobs"
    cluster.run("gkill", str(job))


def test_keys_are_enough(cluster: Cluster, web: WebProcess, window: Browser) -> None:
    job = cluster.submit("-H", "sleep", "3000")
    window.open(f"{web.place}/jobs")
    window.until(lambda: str(job) in window.text("#jobs"), "the job is not listed")
    window.press(TAB)
    assert window.run("return document.activeElement.className") == "skip"
    for _ in range(60):
        if window.run("return document.activeElement.type") == "checkbox":
            break
        window.press(TAB)
    window.press(" ")
    assert window.run("return document.querySelector('#jobs input:checked').value") == str(job)
    window.run("document.querySelector('button[value=kill]').focus()")
    window.press(ENTER)
    assert window.dismiss() == "Kill the chosen jobs?"
    assert window.run("return document.activeElement.value") == "kill" and window.url == f"{web.place}/jobs"
    assert window.run("return document.querySelector('#jobs input:checked').value") == str(job)
    window.run("document.querySelector('button[value=resume]').focus()")
    window.press(ENTER)
    window.until(lambda: window.text(".notice.good") == "One job is being resumed.", "nobody says what was done")
    cluster.becomes(job, "RUN")
    cluster.run("gkill", str(job))


def test_pages_fit_in_korean_too(cluster: Cluster, web: WebProcess) -> None:
    job = cluster.submit("-J", "train", "-m", "gpu02", "-R", "rusage[ngpus_excl_p=2]", "sleep", "3000")
    cluster.starts(job)
    with browser("ko") as window:
        address = web.address()
        window.open(web.place + address)
        window.until(lambda: "내 작업" in window.text(".tile.mine"), "the tiles are not in Korean")
        fits(window, "cluster-ko")
        gpu = window.run("return document.querySelector('.tile.mine b a').getAttribute('href')")
        for name, path in (
            ("job-ko", f"/jobs/{job}"),
            ("queues-ko", "/queues"),
            ("gpu-ko", gpu),
            ("new-job-ko", "/new"),
        ):
            window.open(web.place + path)
            assert "로그아웃" in window.text()
            fits(window, name)
        assert window.logged() == []
    cluster.end_jobs()


def test_an_open_page_goes_on_when_the_master_is_back(cluster: Cluster, web: WebProcess, window: Browser) -> None:
    cluster.kill("master")
    window.until(lambda: "The master has not answered since" in window.text("#away"), "nobody says that it is away")
    cluster.up()
    window.until(lambda: window.text("#away") == "", "it is not said to be back")
