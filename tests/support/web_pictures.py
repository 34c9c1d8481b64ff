"""Take the pictures of docs/images: pages of `gsched web` as a user `ann` sees them, on two hosts with simulated GPUs.

    make pictures          (as root; some four minutes; a program such as pngquant makes them three times smaller)

For its own processes alone, root is called `ann` here and has the home folder /home/ann, which is empty at first: they
have a namespace with another /etc/passwd, and another host name. So no name or path of this machine is on a picture.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from gsched.app.clusters.private_config import config_of, inventory_of
from gsched.app.clusters.private_home import Home
from gsched.base.idset import parse_idset
from gsched.probe.simulated.inventory import change
from tests.support.browser import Browser, browser
from tests.support.page_shapes import in_all_shapes

ROOT = Path(__file__).resolve().parents[2]
HOME = Path("/home/ann")
HOSTS = ("gpu01", "gpu02")
INSIDE = "GSCHED_PICTURES_INSIDE"
"""Set in the process that has the namespace."""
MODEL = {"model": "NVIDIA A100-SXM4-40GB", "memory_mib": 40960, "compute_mode": "exclusive_process"}
DRAWN = """
const places = ["curves", "plots", "compared"].map((each) => document.getElementById(each));
return places.every((each) => !each || each.querySelector("canvas"));
"""
TRAIN = """\
import argparse, math, time

words = argparse.ArgumentParser()
words.add_argument("--model")
words.add_argument("--lr", type=float)
words.add_argument("--max_iter", type=int, default=9000)
args = words.parse_args()
print(f"model {args.model}, max_iter: {args.max_iter}", flush=True)
for step in range(0, args.max_iter, 10):
    noise = 0.02 * math.sin(step * 12.9898) * math.exp(-step / 2000)
    loss = 2.3 / (1 + step * args.lr / 80) ** 0.6 + noise
    print(f"Iteration {step}, loss = {loss:.4f}, accuracy: {0.95 - 0.4 * loss:.3f}", flush=True)
    time.sleep(0.25)
"""


def main() -> None:
    """Take them all and leave them in the folder that is named."""
    folder = Path(sys.argv[1]).resolve()
    if INSIDE not in os.environ:
        sys.exit(inside(folder))
    (HOME / "imagenet").mkdir(parents=True)
    os.chdir(HOME)
    with cluster(), busy_gpus():
        with pages() as (place, window):
            jobs = submit_jobs()
            time.sleep(90)  # so that curves have a form
            take(window, place, jobs, folder)
        with pages("ko") as (place, window):
            look(window, place, "/", "cluster-ko", folder)


def inside(folder: Path) -> int:
    """Run this again where root is ann; returns its exit code."""
    with tempfile.TemporaryDirectory() as own:
        lines = Path("/etc/passwd").read_text().splitlines()
        kept = [line for line in lines if not line.startswith(("root:", "ann:"))]
        passwd = Path(own, "passwd")
        passwd.write_text("\n".join(["ann:x:0:0:Ann:/home/ann:/bin/bash", *kept, ""]))
        script = 'hostname gpu01 && mount -t tmpfs tmpfs /home && mount --bind "$1" /etc/passwd && shift && exec "$@"'
        words = ["unshare", "--mount", "--uts", "--propagation", "private", "sh", "-ec", script, "sh", str(passwd)]
        words += [sys.executable, "-m", "tests.support.web_pictures", str(folder)]
        path = f"{HOME}/bin:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        env = {"HOME": str(HOME), "USER": "ann", "LOGNAME": "ann", "LANG": "C.UTF-8", "TZ": "UTC", "PATH": path}
        return subprocess.run(words, cwd=ROOT, env={**env, INSIDE: "1", "PYTHONPATH": str(ROOT)}).returncode


def run(command: str) -> str:
    """In a shell, in the home folder; what it prints."""
    kept = {name: value for name, value in os.environ.items() if name not in (INSIDE, "PYTHONPATH")}
    return subprocess.run(["bash", "-c", command], env=kept, text=True, stdout=subprocess.PIPE, check=True).stdout


@contextlib.contextmanager
def cluster() -> Iterator[None]:
    """Two hosts with eight GPUs each, one of which is closed; a queue for the night besides the usual ones."""
    Path("gpus.json").write_text(json.dumps([{"index": index, **MODEL} for index in range(8)]))
    run(f"gsched up --sim-gpus {HOME}/gpus.json --hosts {','.join(HOSTS)}")
    try:
        run("gadmin gpuclose gpu02:7 -C 'fan is being replaced'")
        yield
    finally:
        run("gsched down --kill")


@contextlib.contextmanager
def busy_gpus() -> Iterator[None]:
    """Readings of the GPUs that jobs have, as training makes them."""
    over = threading.Event()
    config = config_of(Home.find(None))
    files = {host: inventory_of(config, host) for host in HOSTS}

    def turn() -> None:
        for count in range(10_000):
            if over.wait(1.0):
                return
            for host, indexes, mean in (("gpu01", "0-3", 91), ("gpu02", "0-3", 74), ("gpu01", "4-5", 38)):
                use = round(mean + 5 * math.sin(count / 3) + 3 * math.sin(count * 1.7))
                values = {"utilization_percent": use, "used_mib": 300 * mean + 20 * use, "power_w": 60 + 3 * use}
                values["temperature_c"] = 35 + use // 3
                change(files[host], host, parse_idset(indexes), {name: str(value) for name, value in values.items()})

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def pages(language: str = "en") -> Iterator[tuple[str, Browser]]:
    """`gsched web`, and a browser that has come in."""
    words = ["gsched", "web", "--print-url"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"(http://[\w.:]+)(/enter\S+)", process.stdout.readline())
        assert found is not None
        try:
            with browser(language) as window:
                window.open(found[1] + found[2])
                window.until(lambda: window.url == f"{found[1]}/", "the page behind the address is not left")
                yield found[1], window
        finally:
            process.terminate()


def submit(words: str, folder: str = "imagenet") -> str:
    """The number of the job."""
    found = re.search(r"Job <(\d+)>", run(f"cd ~/{folder} && gsub {words}"))
    assert found is not None
    return found[1]


def submit_jobs() -> dict[str, str]:
    """Jobs of all kinds; the numbers of those that have a picture."""
    Path("imagenet/train.py").write_text(TRAIN)
    for folder in ("cifar10", "bin"):
        Path(folder).mkdir()
    shutil.copy(ROOT / "tests/support/caffe_log.txt", HOME / "cifar10/.log")
    Path("bin/caffe").write_text("#!/bin/sh\ncat ~/cifar10/.log >&2\n")
    Path("bin/caffe").chmod(0o755)
    submit("-J prepare -o log.%J 'echo 1281167 images in 1000 classes'")
    train = "python3 train.py"
    jobs = {
        "caffe": submit("-J cifar10-quick -o log.%J caffe train --solver=cifar10_quick_solver.prototxt", "cifar10"),
        "resnet": submit(f"-J train-resnet50 -gpu num=4 -W 1:30 -m gpu01 -o log.%J {train} --model resnet50 --lr 0.8"),
        "vit": submit(f"-J train-vit -gpu num=4 -W 4:00 -m gpu02 -o log.%J {train} --model vit_b_16 --lr 0.3"),
    }
    submit("-J 'sweep[1-40]%2' -gpu num=1 -m gpu01 'sleep 5; [ $((LSB_JOBINDEX % 7)) -gt 0 ]'")
    jobs["waits"] = submit(f"-J finetune-llama -gpu num=8 -W 8:00 -o log.%J {train} --model llama --lr 0.5")
    submit(f"-J evaluate -w 'done(train-resnet50)' -o log.%J {train} --model resnet50 --lr 0.1")
    submit("-J preprocess -o log.%J 'echo no such file: shards.txt >&2; exit 2'")
    submit("-J tensorboard --service auto 'exec python3 -m http.server --bind 127.0.0.1 \"$GSCHED_SERVICE_PORT\"'")
    return jobs


def take(window: Browser, place: str, jobs: dict[str, str], folder: Path) -> None:
    """All pages in English."""
    look(window, place, "/", "cluster", folder)
    gpu = window.run("return document.querySelector('.tile.mine b a').getAttribute('href')")
    for name, path in (
        ("jobs", "/jobs?whose=mine&states=any"),
        ("job", f"/jobs/{jobs['resnet']}"),
        ("job-waits", f"/jobs/{jobs['waits']}"),
        ("job-ended", f"/jobs/{jobs['caffe']}"),
        ("compare", f"/compare?job={jobs['resnet']}&job={jobs['vit']}"),
        ("gpu", gpu),
        ("queues", "/queues"),
        ("administration", "/administration"),
        ("configuration", "/administration/files"),
        ("configuration-file", "/administration/files/lsb.queues"),
        ("audit-log", "/administration/log"),
    ):
        look(window, place, path, name, folder)
    look(window, place, f"/jobs/{jobs['caffe']}", "curves", folder, "section:has(#plots)")
    window.open(f"{place}/new")
    window.type("textarea[name=command]", "python3 train.py --model resnet50 --lr 0.4")
    for name, value in (("name", "train-resnet50-lr04"), ("gpus", "4"), ("run_limit", "2:00")):
        window.type(f"input[name={name}]", value)
    window.until(lambda: window.text("#when"), "nobody says when it could start")
    keep(window, "new-job", folder)


def look(window: Browser, place: str, path: str, name: str, folder: Path, begin: str = "") -> None:
    """Open the page and take its pictures when all that it shows is there."""
    window.open(place + path)
    live = "return !document.querySelector('[data-watch]') || !!document.getElementById('liveness').textContent"
    window.until(lambda: window.run(live), f"{name} is not kept up to date")
    window.until(lambda: window.run(DRAWN), f"{name}: charts are missing")
    keep(window, name, folder, begin)


def keep(window: Browser, name: str, folder: Path, begin: str = "") -> None:
    """`begin`: what the picture begins with; empty: the top of the page."""
    for shape in in_all_shapes(window, name):
        if begin:
            window.run("document.querySelector(arguments[0]).scrollIntoView()", begin)
        (folder / f"{name}-{shape}.png").write_bytes(window.picture())


if __name__ == "__main__":
    main()
