"""A real browser for tests: Debian's chromium, driven through chromedriver's own protocol (W3C WebDriver over HTTP)."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from typing import Any

NEEDED = ("chromium", "chromedriver")
PATIENCE_S = 120.0
"""Catches a hang only."""
ARGUMENTS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
)
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
_BUSY = "a status of 503"


def missing() -> list[str]:
    """Programs that are not on this machine."""
    return [name for name in NEEDED if shutil.which(name) is None]


class Browser:
    """One window. Elements are found by CSS selectors."""

    def __init__(self, session: str) -> None:
        self._session = session

    def _ask(self, method: str, path: str, **words: Any) -> Any:
        return _ask(method, f"{self._session}{path}", words)

    def open(self, url: str) -> None:
        """Load a page."""
        self._ask("POST", "/url", url=url)

    @property
    def url(self) -> str:
        """Of the page that is shown."""
        return str(self._ask("GET", "/url"))

    def run(self, script: str, *arguments: Any) -> Any:
        """What the script returns."""
        return self._ask("POST", "/execute/sync", script=script, args=list(arguments))

    def run_async(self, script: str, *arguments: Any) -> Any:
        """What the script tells the function that is its last argument."""
        return self._ask("POST", "/execute/async", script=script, args=list(arguments))

    def text(self, selector: str = "body") -> str:
        """What is to be read there; empty when there is no such element."""
        return str(self.run("const e = document.querySelector(arguments[0]); return e ? e.innerText : ''", selector))

    def click(self, selector: str) -> None:
        """Click on the first such element."""
        found = self._ask("POST", "/element", using="css selector", value=selector)
        self._ask("POST", f"/element/{found[_ELEMENT]}/click")

    def type(self, selector: str, text: str) -> None:
        """Type into the first such element."""
        found = self._ask("POST", "/element", using="css selector", value=selector)
        self._ask("POST", f"/element/{found[_ELEMENT]}/value", text=text)

    def press(self, keys: str) -> None:
        """Press keys, one after the other, wherever the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._ask("POST", "/actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    def dismiss(self) -> str:
        """Leave a question of the page (`confirm`) as Escape does; what it has asked."""
        asked = str(self._ask("GET", "/alert/text"))
        self._ask("POST", "/alert/dismiss")
        return asked

    def logged(self) -> list[str]:
        """What the browser has complained of since it was asked last: errors of scripts, refused loads.

        Not what was asked while a busy machine did not answer in time: pages ask that again.
        """
        found = self._ask("POST", "/se/log", type="browser")
        severe = [str(each["message"]) for each in found if each["level"] == "SEVERE"]
        return [message for message in severe if _BUSY not in message]

    def shape(self, width: int, height: int, *, dark: bool = False) -> None:
        """Look as on a screen of that size, in that colour scheme."""
        command = "Emulation.setDeviceMetricsOverride"
        self._chrome(command, width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._chrome("Emulation.setEmulatedMedia", features=scheme)

    def picture(self) -> bytes:
        """What is seen, as PNG."""
        return base64.b64decode(self._ask("GET", "/screenshot"))

    def _chrome(self, command: str, **words: Any) -> Any:
        return self._ask("POST", "/goog/cdp/execute", cmd=command, params=words)

    def until(self, is_true: Callable[[], object], complaint: str) -> None:
        """Wait for something that no event tells of here."""
        deadline = time.monotonic() + PATIENCE_S
        while not is_true():
            assert time.monotonic() < deadline, f"{complaint}: {self.text()}"
            time.sleep(0.1)


@contextlib.contextmanager
def browser(language: str = "en", arguments: Sequence[str] = ()) -> Iterator[Browser]:
    """A browser with nothing in it, whose user reads that language; `arguments`: more for chromium."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="gs-browser-") as folder:
        words = ["chromedriver", f"--port={port}"]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
            try:
                _wait_for(f"http://127.0.0.1:{port}/status")
                options = {"args": [*ARGUMENTS, *arguments, f"--accept-lang={language}", f"--user-data-dir={folder}"]}
                wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
                made = _ask("POST", f"http://127.0.0.1:{port}/session", {"capabilities": {"alwaysMatch": wanted}})
                session = f"http://127.0.0.1:{port}/session/{made['sessionId']}"
                try:
                    yield Browser(session)
                finally:
                    _ask("DELETE", session)  # or the browser would outlive its driver
            finally:
                driver.terminate()


def _ask(method: str, url: str, words: dict[str, Any] | None = None) -> Any:
    data = json.dumps(words or {}).encode() if method == "POST" else None
    request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method)
    try:
        with _opener.open(request, timeout=PATIENCE_S) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{url}: {json.load(error)['value']['message']}") from None


_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            _ask("GET", url)
            return
        except OSError:
            assert time.monotonic() < deadline, f"{url} does not answer"
            time.sleep(0.05)


@contextlib.contextmanager
def entered(place: str, address: str, language: str = "en") -> Iterator[Browser]:
    """A browser that has come in to the pages at `place` by this address, which works once."""
    with browser(language) as found:
        found.open(place + address)
        found.until(lambda: found.url == f"{place}/", "the page behind the address is not left")
        yield found
