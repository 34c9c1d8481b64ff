"""Pages for everybody: axe-core finds no serious fault in light and dark, and keys reach all that can be used. A page
that is open says so when its server or the master is gone, and goes on.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvicorn
from live_cluster import Cluster
from test_story_web import WebProcess, running_web

from gsched.web.access.sessions import WebSessions
from gsched.web.access.web_place import WebPlace
from gsched.web.front.front_application import FrontApplication
from gsched.web.front.front_pages import FrontPages
from gsched.web.front.keeper_link import KeeperLink
from gsched.web.front.login_limits import LoginLimits
from gsched.web.front.proxied_user import ProxiedUser
from gsched.web.services.service_names import ServicePlace
from gsched.wire.identity.caller_identity import user_name
from tests.support.browser import Browser, browser, entered, missing

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=f"needs {' and '.join(missing())}"),
]

TAB, ENTER = "\ue004", "\ue007"
AXE = next(iter(sorted((Path(__file__).parents[2] / ".tools").glob("axe-*/axe.min.js"))), None)
RUN_AXE = """
const done = arguments[arguments.length - 1];
const told = (node) => node.target.join(" ") + " " + node.failureSummary;
axe.run(document, {resultTypes: ["violations"]}).then((found) => done(found.violations
  .filter((each) => ["serious", "critical"].includes(each.impact))
  .map((each) => each.id + ": " + each.nodes.map(told).join("; "))));
"""
FOCUSABLE = """
const found = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")];
const isUsable = (each) => each.tabIndex >= 0 && !each.disabled && each.type !== "hidden";
return found.filter((each) => isUsable(each) && each.checkVisibility({visibilityProperty: true})).length;
"""
NEXT = """
const e = document.activeElement;
if (!e || e === document.body) return null;
if (e.dataset.walked) return "again";
e.dataset.walked = document.querySelectorAll("[data-walked]").length;
const style = getComputedStyle(e);
const isSeen = style.outlineStyle !== "none" || e.className === "skip" || e.matches("input, select, textarea");
return (isSeen ? "seen " : "unseen ") + e.outerHTML.slice(0, 120);
"""


ORDERED = """
const inOrder = [...document.querySelectorAll("[data-walked]")].sort((a, b) => a.dataset.walked - b.dataset.walked);
const isBehind = (a, b) => b.compareDocumentPosition(a) & Node.DOCUMENT_POSITION_PRECEDING;
const start = inOrder.findIndex((each) => each.className === "skip");
const walked = [...inOrder.slice(start), ...inOrder.slice(0, start)]; // a field may have had the focus from the start
return walked.slice(1).find((each, index) => !isBehind(walked[index], each))?.outerHTML ?? null;
"""
SHOWN = """
const texts = [], shown = ["aria-label", "placeholder", "title", "alt"];
const isKorean = (each) => each.closest("[lang]").lang === "ko";
for (const each of document.body.querySelectorAll("*")) {
  if (!isKorean(each) || each.closest("code, pre, script, noscript, textarea, svg, template")) continue;
  const isExample = (name) => name === "placeholder" && each.closest("#new-job, #plot-own");
  for (const name of shown) if (each.hasAttribute(name) && !isExample(name)) texts.push(each.getAttribute(name));
  for (const node of each.childNodes) if (node.nodeType === Node.TEXT_NODE) texts.push(node.data);
}
return [document.title, ...texts];
"""
NO_WORDS = {
    "names": "gsched web default gsub BSUB CPU GPU MIG XID UUID PCI UTC PID URL pid SSH",
    "units": "MiB GiB Wh kWh min",
    "states": "PEND RUN PSUSP USUSP SSUSP UNKWN DONE EXIT Open Active ok unavail closed exclusive_process",
    "options": "gpu gpus num cwd notify plot mail loss accuracy done stdout stderr",
    "policies": "FAIRSHARE BACKFILL",
}
"""What may stand in English on a page in Korean. Sentences of the master are marked (lang="en")."""


@pytest.fixture(scope="module")
def driver(driver_folder: Path) -> Path:
    uuid = f"GPU-{os.getpid():08x}-0000-4000-8000-000000000077"
    set_gpu(driver_folder, uuid, used_mib=0)
    return driver_folder


def set_gpu(folder: Path, uuid: str, **values: int) -> None:
    """What the fake NVML tells from now on."""
    lines = [
        "count=1",
        f"gpu.0.uuid={uuid}",
        "gpu.0.mode=3",
        *(f"gpu.0.{name}={value}" for name, value in values.items()),
    ]
    new = folder / "state.new"
    new.write_text("\n".join(lines) + "\n")
    new.replace(folder / "state")


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster], driver: Path) -> Cluster:
    return module_cluster(LD_LIBRARY_PATH=str(driver), GSCHED_FAKE_NVML=str(driver / "state"))


@pytest.fixture
def web(cluster: Cluster) -> Iterator[WebProcess]:
    with running_web(cluster, port=True) as found:
        yield found


@pytest.fixture
def window(web: WebProcess) -> Iterator[Browser]:
    address = web.address()  # says the place, too
    with entered(web.place, address) as found:
        yield found


@pytest.fixture
def jobs(cluster: Cluster) -> Iterator[tuple[int, int]]:
    """One that runs with a GPU and prints numbers, and one that waits for it."""
    script = "for i in 1 2 3; do echo step $i loss = 0.$i; done; sleep 3000"
    first = cluster.submit("-J", "train", "-R", "rusage[ngpus_excl_p=1]", "--plot", "x=step ([0-9]+)", script)
    cluster.starts(first)
    second = cluster.submit("-J", "eval", "-w", f"done({first})", "sleep", "1")
    yield first, second
    cluster.end_jobs()


@pytest.fixture(scope="module")
def login_place() -> Iterator[str]:
    """Where the front of a shared cluster asks for a password."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        place = f"http://127.0.0.1:{listening.getsockname()[1]}"
        front = FrontApplication(
            KeeperLink(lambda: None),
            WebSessions(),
            ProxiedUser("remote-user", [], has_socket=False),
            WebPlace(frozenset({"127.0.0.1"}), "http"),
            FrontPages("lab"),
            LoginLimits(),
            ServicePlace("http", ()),
        )
        server = uvicorn.Server(uvicorn.Config(front, log_config=None, lifespan="off"))
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        yield place
        server.should_exit = True
        thread.join(60)


def pages(window: Browser, web: WebProcess, jobs: tuple[int, int], login_place: str) -> dict[str, str]:
    """Name -> address, of all pages."""
    gpu = window.run("return document.querySelector('.tile b a').getAttribute('href')")
    first, second = jobs
    return {
        "cluster": "/",
        "jobs": "/jobs?whose=all&states=any",
        "a job": f"/jobs/{first}",
        "a job that waits": f"/jobs/{second}",
        "why a job waits": f"/jobs/{second}/why",
        "curves": f"/compare?job={first}&job={second}",
        "queues": "/queues",
        "a GPU": str(gpu),
        "new job": f"/new?from={first}",
        "an error": "/jobs/999999",
        "administration": "/administration",
        "configuration": "/administration/files",
        "a file": "/administration/files/lsb.queues",
        "the audit log": "/administration/log",
        "no session": web.place.replace("127.0.0.1", "localhost") + "/",
        "log in": f"{login_place}/",
    }


@pytest.mark.skipif(AXE is None, reason="needs axe-core (tests/install-axe)")
@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.nightly)], ids=["light", "dark"])
def test_axe_finds_no_serious_fault(
    web: WebProcess, window: Browser, jobs: tuple[int, int], login_place: str, dark: bool
) -> None:
    assert AXE is not None
    faults = []
    for name, path in pages(window, web, jobs, login_place).items():
        window.open(path if path.startswith("http") else web.place + path)
        if name in ("a job", "curves"):
            window.until(lambda: window.run("return document.querySelectorAll('canvas').length") >= 1, "no curves")
        window.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        window.shape(1280, 900, dark=dark)
        window.run(AXE.read_text())
        faults += [f"{name}: {each}" for each in window.run_async(RUN_AXE)]
    assert not faults, "\n".join(faults)


@pytest.mark.nightly
def test_keys_reach_all_that_can_be_used(
    web: WebProcess, window: Browser, jobs: tuple[int, int], login_place: str
) -> None:
    for name, path in pages(window, web, jobs, login_place).items():
        window.open(path if path.startswith("http") else web.place + path)
        wanted, walked = window.run(FOCUSABLE), []
        for _ in range(wanted + 40):
            window.press(TAB)
            here = window.run(NEXT)
            if here == "again":
                break
            if here is not None:  # behind the last one it begins anew: a field may have had the focus from the start
                walked.append(here)
        assert len(walked) >= wanted, f"{name}: {len(walked)} of {wanted}: {walked}"
        assert not [each for each in walked if each.startswith("unseen")], name
        assert window.run(ORDERED) is None, f"{name}: keys do not go from top to bottom"


@pytest.mark.nightly
def test_no_english_is_left_on_a_korean_page(
    cluster: Cluster, web: WebProcess, jobs: tuple[int, int], login_place: str
) -> None:
    known = {word.casefold() for text in (*NO_WORDS.values(), *_names(cluster)) for word in _words(text)}
    client = cluster.client()
    descriptions = {queue.description for queue in client.queues()}  # the administrator's own words
    client.close()
    found = {}
    address = web.address()  # says the place, too
    with entered(web.place, address, "ko") as window:
        for name, path in pages(window, web, jobs, login_place).items():
            window.open(path if path.startswith("http") else web.place + path)
            if name in ("a job", "curves"):
                window.until(lambda: window.run("return document.querySelectorAll('canvas').length") >= 1, "no curves")
            texts = window.run(SHOWN)
            assert any(re.search("[가-힣]", text) for text in texts), f"{name} is not in Korean"
            said = {text.strip() for text in texts if text.strip() not in descriptions}
            if english := {text for text in said for word in _words(text) if word.casefold() not in known}:
                found[name] = english
    assert not found, "\n".join(f"{name}: {said}" for name, said in found.items())


def _words(text: str) -> list[str]:
    """Words in Latin letters, of two or more."""
    return re.findall("[A-Za-z]{2,}", text)


def _names(cluster: Cluster) -> Iterator[str]:
    """Those of this cluster, its hosts, GPUs, queues, files and jobs, and of this user."""
    client = cluster.client()
    yield client.cluster().cluster
    for host in client.hosts():
        yield " ".join([host.name, *(each.gpu.model for each in host.gpus)])
    yield " ".join(queue.name for queue in client.queues())
    client.close()
    yield " ".join([str(cluster.conf), *(path.name for path in cluster.conf.iterdir()), "train", "eval", "lab"])
    yield user_name(os.getuid())


@pytest.mark.parametrize(
    "focused",
    [
        "#jobs select",
        *(pytest.param(each, marks=pytest.mark.nightly) for each in ("#jobs input[type=checkbox]", "#jobs th a")),
    ],
)
def test_the_focus_stays_where_it_is_when_a_page_is_brought_up_to_date(
    cluster: Cluster, web: WebProcess, window: Browser, jobs: tuple[int, int], focused: str
) -> None:
    window.open(f"{web.place}/jobs")
    window.until(lambda: all(str(each) in window.text("#jobs tbody") for each in jobs), "the jobs are not listed")
    window.run("document.querySelector(arguments[0]).focus()", focused)
    window.run("document.querySelector('#jobs').dataset.old = '1'")
    job = cluster.submit("-H", "-J", "comes-in", "sleep", "3000")
    window.until(lambda: "comes-in" in window.text("#jobs"), "the new job is not listed")
    assert window.run("return document.querySelector('#jobs').dataset.old ?? ''") == "", "the list is still the old one"
    assert window.run("return document.activeElement.closest(arguments[0]) !== null", focused)
    cluster.run("gkill", str(job))


def test_a_job_by_keys_alone(cluster: Cluster, web: WebProcess, window: Browser) -> None:
    window.open(f"{web.place}/new")
    window.until(lambda: window.run("return document.activeElement.name") == "command", "nothing can be typed")
    for part in ("echo typed; sleep 3000", TAB, TAB, "by-keys"):
        window.press(part)
    window.until(lambda: "-J by-keys" in window.text("#line"), "the line is not shown")
    window.until(lambda: "At once" in window.text("#when"), "nobody says when it could start")
    window.press(ENTER)
    window.until(lambda: "is submitted" in window.text(".notice.good"), "the job's page is not shown")
    window.run("window.confirm = () => true")
    for _ in range(60):
        window.press(TAB)
        if window.run("return document.activeElement.value") == "kill":
            break
    window.press(ENTER)
    window.until(lambda: "being ended" in window.text(".notice.good"), "it was not killed")
    cluster.end_jobs()


@pytest.mark.nightly
def test_live_curves_are_the_drivers_numbers(
    cluster: Cluster, driver: Path, web: WebProcess, window: Browser, jobs: tuple[int, int]
) -> None:
    uuid = (driver / "state").read_text().partition("uuid=")[2].split()[0]
    window.open(f"{web.place}/jobs/{jobs[0]}")
    fetched = f"""const done = arguments[0];
        fetch("/jobs/{jobs[0]}/curves").then((answer) => answer.json()).then((told) => done(told.gpus));"""
    for util, used, power, temp in ((35, 3000, 120, 50), (91, 7777, 233, 71)):
        set_gpu(driver, uuid, util=util, used_mib=used, power_mw=power * 1000, temp=temp)
        wanted = [util, used, power, temp]

        def last(wanted: list[int] = wanted) -> bool:
            gpus = window.run_async(fetched)
            return bool(gpus) and [gpus[0][name][-1] for name in ("sm", "mem", "power", "temperature")] == wanted

        window.until(last, f"the curves do not end with {wanted}")
    curve = "return document.querySelector('#curves [role=img]')?.ariaLabel ?? ''"
    window.until(lambda: window.run(curve).endswith("– 91"), "the chart does not show the driver's numbers")
    set_gpu(driver, uuid, used_mib=0)  # nothing is started on a GPU that is not clean


def test_an_open_page_says_when_its_server_is_gone_and_what_to_do(cluster: Cluster) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    first = WebProcess(cluster, "--port", str(port), port=True)
    with browser() as window:
        window.open(first.place + first.address() if first.place else f"http://127.0.0.1:{port}{first.address()}")
        window.until(lambda: window.text("#liveness") == "kept up to date", "it is not kept up to date")
        first.end()
        window.until(lambda: "not kept up to date now" in window.text("#liveness"), "nobody says that it is gone")
        second = WebProcess(cluster, "--port", str(port), port=True)
        address = second.address()
        window.until(lambda: "come in with a new address" in window.text(), "it does not say what to do")
        window.open(second.place + address)
        window.until(lambda: window.text("#liveness") == "kept up to date", "it does not go on")
        second.end()


def test_a_page_goes_on_with_a_new_master_and_misses_nothing(
    cluster: Cluster, web: WebProcess, window: Browser
) -> None:
    window.open(f"{web.place}/jobs")
    cluster.kill("master")
    window.until(lambda: "The master has not answered since" in window.text("#away"), "nobody says that it is away")
    cluster.up()
    job = cluster.submit("-H", "-J", "afterwards", "sleep", "3000")
    window.until(lambda: window.text("#away") == "" and "afterwards" in window.text("#jobs"), "the page has stopped")
    cluster.run("gkill", str(job))
    window.until(lambda: "afterwards" not in window.text("#jobs"), "the page does not go on")
