"""gparams and gclusters: what programs read of bparams and lsclusters."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from fake_master import FakeCall, FakeMaster

from gsched.model.views.view import HostView, Parameter

NewCall = Callable[..., FakeCall]
PARAMETERS = tuple(
    Parameter(*pair)
    for pair in (
        ("DEFAULT_QUEUE", "normal"),
        ("MBD_SLEEP_TIME", "10"),
        ("SBD_SLEEP_TIME", "7"),
        ("JOB_ACCEPT_INTERVAL", "0.5"),
        ("MAX_JOB_ARRAY_SIZE", "1000"),
    )
)


def shown(master: FakeMaster, call: NewCall, *words: str) -> str:
    master.cluster_view = msgspec.structs.replace(
        master.cluster_view, parameters=PARAMETERS, administrators=("lsfadmin", "root")
    )
    done = call(*words)
    assert done.run() == 0, done.err
    assert done.err == ""
    return done.out


def test_parameters(master: FakeMaster, call: NewCall) -> None:
    assert shown(master, call, "bparams") == (
        "Default Queues:  normal\n"
        "MBD_SLEEP_TIME used for calculations:  10 seconds\n"
        "Job Checking Interval:  7 seconds\n"
        "Job Accepting Interval:  5 seconds\n"
    )
    pairs = [line.strip().split(" = ") for line in shown(master, call, "bparams", "-a").splitlines()]
    assert [Parameter(*pair) for pair in pairs] == list(PARAMETERS)


def test_parameters_with_what_they_mean(master: FakeMaster, call: NewCall) -> None:
    text = shown(master, call, "gparams", "-l")
    assert "\nDefault queue:\n    DEFAULT_QUEUE = normal\n" in text
    assert "\nInterval for a host to accept two jobs:\n    JOB_ACCEPT_INTERVAL = 0.5 (* MBD_SLEEP_TIME)\n" in text


def test_clusters(master: FakeMaster, call: NewCall) -> None:
    master.host_views = [HostView(name="ubuntu02", status="ok"), HostView(name="h2", status="unavail")]
    header, line = shown(master, call, "lsclusters").splitlines()
    assert header == "CLUSTER_NAME   STATUS   MASTER_HOST               ADMIN    HOSTS  SERVERS"
    assert line == "firestone      ok       ubuntu02               lsfadmin        2        2"
    assert shown(master, call, "lsclusters", "-w", "firestone").split()[6:8] == ["firestone", "ok"]
    wrong = call("lsclusters", "elsewhere")
    assert wrong.run() == 255 and "elsewhere: unknown cluster name" in wrong.err
