"""A program in the manner of DIGITS as a job: started, followed and aborted in a real browser, by way of gsched web."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from live_cluster import Cluster
from test_story_web import WebProcess

from tests.support.browser import Browser, entered, missing

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=f"needs {' and '.join(missing())}"),
]

PROGRAM = Path(__file__).parents[2] / "examples" / "training_server.py"
EPOCHS = "100000"
POINTS = "return document.querySelector('#curve polyline').points.length"

FALLS = "const p = [...document.querySelector('#curve polyline').points]; return p[p.length - 1].y > p[0].y"


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "1:exclusive_process")


@pytest.mark.parametrize("prefix", ["", pytest.param("/digits", marks=pytest.mark.nightly)])
def test_a_training_is_started_followed_and_aborted(cluster: Cluster, prefix: str) -> None:
    program = shlex.join([sys.executable, str(PROGRAM), "--url-prefix", prefix])
    job = cluster.submit("--service", "auto", "-gpu", "num=1", f'exec {program} --port "$GSCHED_SERVICE_PORT"')
    cluster.until(lambda: "answers on" in cluster.run("gjobs", "-l", str(job)).stdout, "it does not answer")
    web = WebProcess(cluster, port=True)
    address = web.address()  # says the place, too
    with entered(web.place, address) as window:
        service = f"http://job-{job}.localhost:{web.place.rpartition(':')[2]}{prefix}"
        _open_from_the_jobs_page(window, f"{web.place}/jobs/{job}", service)
        window.type("input[name=name]", "<b>cifar</b> & more")
        window.run("document.querySelector('input[name=epochs]').value = arguments[0]", EPOCHS)
        window.click("#start")
        window.until(lambda: window.url == f"{service}/trainings/1", "the form does not lead to the training")
        assert window.text("h1") == "<b>cifar</b> & more"
        window.until(lambda: window.run(POINTS) >= 3, "the curve is not drawn")
        count = window.run(POINTS)
        window.until(lambda: window.run(POINTS) > count, "the curve does not go on")
        assert window.run(FALLS), "it does not learn"
        assert (window.text("#state"), window.text("body").count(f"of {EPOCHS}")) == ("running", 1)
        window.click("#abort")
        window.until(lambda: window.text("#state") == "aborted", "it is not aborted")
        window.until(lambda: window.run("return document.getElementById('abort').disabled"), "it can be aborted again")
        window.click("a")
        window.until(lambda: window.url == f"{service}/", "the link does not lead to the list")
        assert window.text("li") == "<b>cifar</b> & more aborted"
        assert window.logged() == []
    web.end()
    cluster.run("gkill", str(job))
    cluster.wait(job)


def _open_from_the_jobs_page(window: Browser, page: str, service: str) -> None:
    window.open(page)
    window.run("document.querySelector('#service a.button').target = '_self'")
    window.click("#service a.button")
    window.until(lambda: window.url == f"{service}/", "the link does not lead to the service")
