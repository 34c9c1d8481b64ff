"""Curves of what jobs print, in a real browser: caffe's log of the seed, patterns of --plot, several jobs, progress."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_cluster import Cluster
from test_story_web import WebProcess
from test_story_web_browser import fits

from tests.support.browser import Browser, entered, missing

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=f"needs {' and '.join(missing())}"),
]

LOG = Path(__file__).parents[1] / "support" / "caffe_log.txt"
FACTS = """
const found = {};
for (const chart of document.querySelectorAll('#plots [role=img], #compared [role=img]')) {
  const [name, ...rest] = chart.ariaLabel.split(': ');
  found[name] = rest.join(': ');
}
return found;
"""

RECORD = """
const pen = CanvasRenderingContext2D.prototype, clear = pen.clearRect, write = pen.fillText;
window.drawn = new Map();
pen.clearRect = function (...place) { window.drawn.set(this.canvas, []); clear.apply(this, place); };
pen.fillText = function (text, ...place) {
  window.drawn.get(this.canvas).push([this.textAlign, text]);
  write.call(this, text, ...place);
};
"""
LABELS = """
const labels = {};
for (const [canvas, texts] of window.drawn) {
  if (canvas.isConnected) labels[canvas.closest('[role=img]').ariaLabel.split(':')[0]] = texts;
}
return labels;
"""


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "2:exclusive_process")


@pytest.fixture(scope="module")
def window(cluster: Cluster) -> Iterator[Browser]:
    """A browser that has come in. In the end it must have complained of nothing."""
    web = WebProcess(cluster, port=True)
    address = web.address()  # says the place, too
    with entered(web.place, address) as found:
        found.place = web.place  # type: ignore[attr-defined]
        yield found
        assert found.logged() == []
    web.end()


def show(window: Browser, path: str) -> None:
    window.open(f"{window.place}{path}")  # type: ignore[attr-defined]


def choose_axis(window: Browser, axis: str) -> None:
    """It is remembered for other pages."""
    change = "e.value = arguments[0]; e.dispatchEvent(new Event('change'))"
    script = f"const e = document.getElementById('plot-axis'); {change}"
    window.run(script, axis)


def curves(window: Browser) -> dict[str, str]:
    found: dict[str, str] = window.run(FACTS)
    return found


def test_caffes_log_has_curves_and_its_progress(cluster: Cluster, window: Browser, tmp_path: Path) -> None:
    job = cluster.submit("-J", "cifar10", "-o", str(tmp_path / "log"), f"cat {shlex.quote(str(LOG))} >&2")
    cluster.wait(job)
    show(window, f"/jobs/{job}")
    window.until(lambda: len(curves(window)) == 4, "the curves are not drawn")
    assert curves(window) == {
        "lr": "lr 0.0001 – 0.0001",
        "loss": "loss 0.3812 – 0.4561",
        "test accuracy": "test accuracy 0.7591 – 0.7594",
        "test loss": "test loss 0.7345 – 0.7371",
    }
    assert window.text("#plot-progress span").startswith("100 %, step 5000/5000")
    choose_axis(window, "time")
    window.until(lambda: len(curves(window)) == 4, "not all of it is drawn against time")
    fits(window, "curves-caffe")
    choose_axis(window, "step")


FLAT = {
    "loss": ("700.00001", "700.00002", "700.00003"),
    "lr": ("0.0001", "0.0001", "0.0002"),
    "tiny": ("3e-11", "5e-11", "6e-11"),
    "large": ("81559", "81559", "81560"),
    "huge": ("1e15", "2e15", "4e15"),
    "same": ("700", "700", "700"),
    "reals": ("123456789.12345678", "123456789.12345679", "123456789.1234568"),
}


def test_labels_of_an_axis_are_never_the_same_twice(cluster: Cluster, window: Browser) -> None:
    """A learning rate had `0, 0, 0`, a loss that hardly changes `700, 700, 700`."""
    lines = "; ".join(f"echo {name} = {value}" for name, values in FLAT.items() for value in values)
    plots = [word for name in FLAT for word in ("--plot", f"{name}={name} = ([0-9.e-]+)")]
    job = cluster.submit(*plots, f"{lines}; exec sleep 3000")
    cluster.starts(job)
    show(window, f"/jobs/{job}")
    window.run(RECORD)
    window.until(lambda: FLAT.keys() <= curves(window).keys(), "the curves are not drawn")
    choose_axis(window, "time")
    choose_axis(window, "step")  # all of it is drawn anew
    window.until(lambda: FLAT.keys() <= window.run(LABELS).keys(), "nothing is drawn anew")
    found = window.run(LABELS)
    for name in FLAT:
        for side in ("right", "center"):
            labels = [text for align, text in found[name] if align == side]
            assert len(labels) >= 2 and len(set(labels)) == len(labels), (name, labels)
    rates, same = (
        [float(text.replace(",", "")) for side, text in found[name] if side == "right"] for name in ("lr", "same")
    )
    assert max(rates) == 0.0002 and min(same) < 700 < max(same)
    cluster.run("gkill", str(job))


def test_patterns_of_a_job_are_kept_with_it(cluster: Cluster, window: Browser) -> None:
    script = "for i in 1 2 3 4; do echo Epoch $i/5; echo reward is $((i * 7)) now; done; sleep 3000"
    job = cluster.submit("--plot", "reward=reward is ([0-9]+) now", script)
    cluster.starts(job)
    shown = "reward=reward is ([0-9]+) now"
    assert cluster.run("gjobs", "-noheader", "-o", "plots:40", str(job)).stdout.strip() == shown
    assert f"Plots<{shown}>".replace(" ", "") in "".join(cluster.run("gjobs", "-l", str(job)).stdout.split())
    cluster.kill("master")
    cluster.up()
    show(window, f"/jobs/{job}")
    window.until(lambda: curves(window).get("reward") == "reward 7 – 28", "the job's own curve is not drawn")
    assert "reward=reward is ([0-9]+) now" in window.text()
    assert window.text("#plot-progress span").startswith("60 %")
    cluster.run("gmod", "--plotn", str(job))
    assert "Plots" not in cluster.run("gjobs", "-l", str(job)).stdout
    cluster.run("gkill", str(job))


def test_an_open_page_begins_anew_with_each_attempt(cluster: Cluster, window: Browser, tmp_path: Path) -> None:
    first = "for i in 1 2 3 4 5 6; do echo first step $i loss = 9$i; done; echo first >&2"
    second = "for i in 1 2; do echo second step $i loss = $i; done"
    mark = tmp_path / "mark"
    job = cluster.submit(f"if [ -e {mark} ]; then {second}; else touch {mark}; {first}; fi; exec sleep 3000")
    cluster.starts(job)
    show(window, f"/jobs/{job}")
    window.until(lambda: curves(window).get("loss") == "loss 91 – 96", "the curve is not drawn")
    window.until(lambda: "first" in window.text("#stderr"), "what it prints is not shown")
    cluster.run("grequeue", str(job))
    window.until(lambda: curves(window).get("loss") == "loss 1 – 2", "the curve of the second attempt is not drawn")
    window.until(lambda: "second step 2" in window.text("#stdout"), "what the second attempt prints is not shown")
    assert "first" not in window.text("#output")
    cluster.run("gkill", str(job))


def test_curves_that_are_compared_are_those_of_the_last_attempt(
    cluster: Cluster, window: Browser, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    first = "for i in 1 2 3 4 5 6; do echo step $i loss = 9$i; done"
    second = "for i in 1 2; do echo longer than before: step $i loss = $i; done"
    job = cluster.submit(f"if [ -e '{mark}' ]; then {second}; else touch '{mark}'; {first}; fi; exec sleep 3000")
    cluster.starts(job)
    show(window, f"/compare?job={job}")
    window.until(lambda: curves(window).get("loss") == f"{job} 91 – 96", str(curves(window)))
    cluster.run("grequeue", str(job))
    window.until(lambda: curves(window).get("loss") == f"{job} 1 – 2", str(curves(window)))
    assert window.text("#numbers tbody tr").split()[-1] == "2", "the values of both are counted"
    cluster.run("gkill", str(job))


def test_the_page_of_a_job_that_waits_has_its_output_when_it_starts(cluster: Cluster, window: Browser) -> None:
    job = cluster.submit("-H", "echo here it is; exec sleep 3000")
    show(window, f"/jobs/{job}")
    window.until(lambda: "PSUSP" in window.text("h1"), "the page is not there")
    cluster.run("gresume", str(job))
    window.until(lambda: "here it is" in window.text("#stdout"), "what it prints is not shown")
    cluster.run("gkill", str(job))


@pytest.mark.nightly
def test_a_pattern_that_takes_too_long_is_left_out(cluster: Cluster, window: Browser) -> None:
    job = cluster.submit("--plot", "slow=(a+a+)+b1", f"echo loss = 1; echo {'a' * 200} 1; echo loss = 2; sleep 3000")
    cluster.starts(job)
    show(window, f"/jobs/{job}")
    window.until(lambda: "slow" in window.text("#plot-problem"), "nobody says that it takes too long")
    window.until(lambda: "loss" in curves(window), "other curves are not drawn")
    cluster.run("gkill", str(job))


def test_jobs_chosen_in_the_list_are_compared(cluster: Cluster, window: Browser) -> None:
    jobs = [
        cluster.submit("-J", f"seed{seed}", f"for i in 1 2 3; do echo step $i loss = $((i + {seed})); done; sleep 3000")
        for seed in (1, 5)
    ]
    for job in jobs:
        cluster.starts(job)
    show(window, "/jobs")
    boxes = "return [...document.querySelectorAll('#jobs input[name=job]')].map((each) => Number(each.value)).sort()"
    window.until(lambda: window.run(boxes) == jobs, "the jobs are not listed")
    for job in jobs:
        window.click(f"#jobs input[value='{job}']")
    window.click("button[data-compare]")
    window.until(lambda: "loss" in curves(window), "no curves")
    label = " – ".join(("2", "4")), " – ".join(("6", "8"))
    wanted = f"{jobs[0]} seed1 {label[0]}, {jobs[1]} seed5 {label[1]}"
    window.until(
        lambda: curves(window)["loss"] in (wanted, ", ".join(reversed(wanted.split(", ")))), str(curves(window))
    )
    assert window.run("return document.querySelectorAll('#numbers tbody tr').length") == 2
    fits(window, "compare")
    cluster.end_jobs()
