#!/usr/bin/env python3
"""A small program with a page of its own, in the manner of NVIDIA DIGITS: a form starts a training, its loss is drawn
while it goes on, and a button aborts it.

    gsub --service auto -gpu num=1 'exec python3 training_server.py --port "$GSCHED_SERVICE_PORT"'

Like DIGITS it has absolute links, below a prefix if it is given one, redirects after each form, asks for the curve
again and again, and trains in a process of its own: gradient descent, which fits a line to points with noise. It
listens at 127.0.0.1 alone, and serves nobody who does not say GSCHED_SERVICE_TOKEN, where that is set. It keeps
nothing: trainings end with it.
"""

from __future__ import annotations

import argparse
import contextlib
import hmac
import html
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

POINTS = 20_000
MOST_EPOCHS = 100_000
MOST_TRAININGS = 100
LARGEST_FORM = 16 * 1024
LONGEST_NAME = 80

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="{prefix}/page.css">
<script src="{prefix}/curve.js" defer></script></head>
<body><p><a href="{prefix}/">All trainings</a></p><h1>{title}</h1>{body}</body></html>"""
FORM = """<form method="post" action="{prefix}/trainings"><p>
<label>Name <input name="name" required maxlength="80"></label>
<label>Epochs <input name="epochs" type="number" value="200" min="1" max="100000"></label>
<label>Learning rate <input name="rate" value="0.05"></label>
<button id="start">Start</button></p></form><ul>{rows}</ul>"""
TRAINING = """<p>State: <strong id="state">{state}</strong>,
epoch <span id="epoch">0</span> of {epochs}, loss <span id="loss">-</span></p>
<svg id="curve" viewBox="0 0 400 200" role="img" aria-label="loss" data-curve="{prefix}/trainings/{number}/curve">
<polyline fill="none" stroke="currentColor" points=""/></svg>
<form method="post" action="{prefix}/trainings/{number}/abort"><button id="abort">Abort</button></form>"""
STYLE = "body { font-family: sans-serif; max-width: 40em; margin: 2em auto; } svg { border: 1px solid; width: 100%; }"
SCRIPT = """"use strict";
const place = document.getElementById("curve"), losses = [];
const draw = () => {
  const most = Math.max(...losses), across = Math.max(1, losses.length - 1);
  const points = losses.map((loss, epoch) => (400 * epoch) / across + "," + (195 - (190 * loss) / most));
  place.querySelector("polyline").setAttribute("points", points.join(" "));
  document.getElementById("epoch").textContent = losses.length;
  document.getElementById("loss").textContent = losses.length ? losses[losses.length - 1].toPrecision(4) : "-";
};
const ask = async () => {
  const told = await (await fetch(place.dataset.curve + "?from=" + losses.length)).json();
  losses.push(...told.losses);
  draw();
  document.getElementById("state").textContent = told.state;
  document.getElementById("abort").disabled = told.state !== "running";
  if (told.state === "running") setTimeout(ask, 500);
};
if (place) ask();
"""


def losses(rate: float, epochs: int) -> Iterator[float]:
    """Mean squared error after each epoch."""
    noise = random.Random(1)
    points = [(x, 3.0 * x - 1.0 + noise.gauss(0.0, 0.1)) for x in (noise.uniform(-1.0, 1.0) for _ in range(POINTS))]
    slope = offset = 0.0
    for _ in range(epochs):
        errors = [(slope * x + offset - y, x) for x, y in points]
        slope -= rate * 2.0 * sum(error * x for error, x in errors) / POINTS
        offset -= rate * 2.0 * sum(error for error, _ in errors) / POINTS
        yield sum(error * error for error, _ in errors) / POINTS


class Training:
    """One process that trains, and what it has told."""

    def __init__(self, name: str, epochs: int, rate: float) -> None:
        self.name = name
        self.epochs = epochs
        self.losses: list[float] = []
        self.state = "running"
        words = [sys.executable, os.path.abspath(__file__), "--train", str(epochs), "--rate", str(rate)]
        self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.losses.append(float(line))
        code = self._process.wait()
        self.state = "done" if code == 0 else "aborted" if code == -signal.SIGTERM else f"failed with exit code {code}"

    def abort(self) -> None:
        """End it, if it goes on. Returns when it has ended."""
        self._process.terminate()
        self._process.wait()


class TrainingServer(ThreadingHTTPServer):
    """The trainings by their numbers."""

    daemon_threads = True

    def __init__(self, port: int, prefix: str, token: str) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.prefix = prefix
        self.token = token
        self.trainings: dict[int, Training] = {}
        self.numbers = itertools.count(1)


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: TrainingServer
    timeout = 60

    def do_GET(self) -> None:
        """Pages, and the curve of a training."""
        where = urlsplit(self.path)
        match self._words(where.path):
            case []:
                self._answer(HTTPStatus.OK, self._page("Trainings", FORM, rows=self._rows()))
            case ["page.css"]:
                self._answer(HTTPStatus.OK, STYLE, "text/css")
            case ["curve.js"]:
                self._answer(HTTPStatus.OK, SCRIPT, "text/javascript")
            case ["trainings", number] if training := self._training(number):
                facts = {"number": number, "state": training.state, "epochs": training.epochs}
                self._answer(HTTPStatus.OK, self._page(training.name, TRAINING, **facts))
            case ["trainings", number, "curve"] if training := self._training(number):
                start = parse_qs(where.query).get("from", ["0"])[0]
                state = training.state  # before the losses: when it is over all of them are there
                told = {"state": state, "losses": training.losses[int(start) if start.isdecimal() else 0 :]}
                self._answer(HTTPStatus.OK, json.dumps(told), "application/json")
            case None:
                self._go("/")
            case _:
                self._answer(HTTPStatus.NOT_FOUND, "There is nothing here.\n", "text/plain")

    def do_POST(self) -> None:
        """Start a training, or abort one."""
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > LARGEST_FORM:
            self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "No form.\n", "text/plain")
            return
        form = parse_qs(self.rfile.read(int(size)).decode("utf-8", "replace"))
        match self._words(urlsplit(self.path).path):
            case ["trainings"]:
                self._start({name: values[0] for name, values in form.items()})
            case ["trainings", number, "abort"] if training := self._training(number):
                training.abort()
                self._go(f"/trainings/{number}")
            case _:
                self._answer(HTTPStatus.NOT_FOUND, "There is nothing here.\n", "text/plain")

    def _start(self, form: dict[str, str]) -> None:
        name, problem, epochs, rate = form.get("name", "").strip()[:LONGEST_NAME], "", 0, 0.0
        try:
            epochs, rate = int(form.get("epochs", "")), float(form.get("rate", ""))
        except ValueError:
            problem = "epochs and learning rate are numbers"
        if not problem and not (name and 0 < epochs <= MOST_EPOCHS and 0.0 < rate < 1.0):
            problem = f"a training has a name, 1 to {MOST_EPOCHS} epochs, and a learning rate between 0 and 1"
        if len(self.server.trainings) >= MOST_TRAININGS:
            problem = f"{MOST_TRAININGS} trainings are the most"
        if problem:
            self._answer(HTTPStatus.BAD_REQUEST, f"{problem}\n", "text/plain")
            return
        number = next(self.server.numbers)
        self.server.trainings[number] = Training(name, epochs, rate)
        self._go(f"/trainings/{number}")

    def _words(self, path: str) -> list[str] | None:
        """The path below the prefix; None for one that is not below it."""
        prefix = self.server.prefix
        if path != prefix and not path.startswith(f"{prefix}/"):
            return None
        return [word for word in path.removeprefix(prefix).split("/") if word]

    def _training(self, number: str) -> Training | None:
        return self.server.trainings.get(int(number)) if number.isdecimal() and len(number) < 10 else None

    def _rows(self) -> str:
        rows = []
        for number, training in self.server.trainings.items():
            link = f'<a href="{self.server.prefix}/trainings/{number}">{html.escape(training.name)}</a>'
            rows.append(f"<li>{link} {training.state}</li>")
        return "".join(rows)

    def _page(self, title: str, body: str, **values: Any) -> str:
        filled = body.format(prefix=self.server.prefix, **values)
        return PAGE.format(prefix=self.server.prefix, title=html.escape(title), body=filled)

    def _go(self, path: str) -> None:
        self._answer(HTTPStatus.SEE_OTHER, "", location=f"{self.server.prefix}{path}")

    def _answer(self, status: HTTPStatus, text: str, kind: str = "text/html", **headers: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def parse_request(self) -> bool:
        """Nobody else of the host is served: the secret is said by whom gsched has let in."""
        if not super().parse_request():
            return False
        wanted = f"Bearer {self.server.token}".encode()
        if self.server.token and not hmac.compare_digest(self.headers.get("Authorization", "").encode(), wanted):
            self._answer(HTTPStatus.FORBIDDEN, "Open it from the job's page.\n", "text/plain")
            return False
        return True

    def log_message(self, *words: Any) -> None:
        """Requests are not what the job has to say."""


def main() -> int:
    """Serve until killed; with `--train` train."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=5000)
    parser.add_argument("--url-prefix", default="", help="all of its paths are below it, such as /digits")
    parser.add_argument("--train", type=int, metavar="EPOCHS", help=argparse.SUPPRESS)
    parser.add_argument("--rate", type=float, default=0.05, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.train is not None:
        for loss in losses(asked.rate, asked.train):
            print(loss, flush=True)
        return 0
    server = TrainingServer(asked.port, asked.url_prefix.rstrip("/"), os.environ.get("GSCHED_SERVICE_TOKEN", ""))
    print(f"listening on port {server.server_port}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
