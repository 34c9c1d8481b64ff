"""What processes load before they serve: importing is nearly all that the start of a cluster costs."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from gsched.base.machine.large_imports import LargeImport

OF_THE_MASTER = ("sqlalchemy", "numpy", "prometheus_client", "gsched.master", "gsched.core.engine", "gsched.policy")
OF_THE_AGENT = ("psutil", "gsched.agent", "gsched.run.executor")
OF_COMMANDS = ("gsched.dialect.bsub", "gsched.dialect.options", "gsched.cli.commands")
OF_MAIL = ("email", "smtplib", "http")
OF_CONFIGURATIONS = ("gsched.config", "gsched.model.config", "gsched.probe", "gsched.resreq")
PROCESSES = {
    "up": ("gsched.app.commands.private_cluster.up_words", OF_THE_MASTER + OF_THE_AGENT + OF_COMMANDS + OF_MAIL),
    "down": (
        "gsched.app.commands.private_cluster.down_words",
        OF_THE_MASTER + OF_THE_AGENT + OF_COMMANDS + OF_MAIL + OF_CONFIGURATIONS,
    ),
    "drain, metrics, orphans, versions": (
        "gsched.app.commands.fleet_words",
        OF_THE_MASTER + OF_THE_AGENT + OF_MAIL + OF_CONFIGURATIONS,
    ),
    "hclose, qclose": (
        "gsched.app.commands.host_and_queue_words",
        OF_THE_MASTER + OF_THE_AGENT + OF_MAIL + OF_CONFIGURATIONS,
    ),
    "door": ("gsched.app.commands.daemon_words, gsched.door.server", OF_THE_MASTER + OF_THE_AGENT + OF_MAIL),
    "agent": ("gsched.app.commands.daemon_words, gsched.agent.daemon", OF_THE_MASTER + OF_COMMANDS + ("http",)),
    "reader of histories": (
        "gsched.master.past.reading, gsched.master.past.past_server",
        (*OF_THE_AGENT, *OF_COMMANDS, "numpy", "gsched.core.engine", "gsched.policy", "gsched.config", "gsched.resreq"),
    ),
    "master": ("gsched.app.commands.daemon_words, gsched.master.daemon", OF_THE_AGENT + OF_COMMANDS + ("smtplib",)),
}


@pytest.mark.parametrize("process", PROCESSES)
def test_a_process_loads_nothing_that_others_need(process: str) -> None:
    loaded, unwanted = PROCESSES[process]
    told = f"import sys, gsched.app.entry, gsched.app.commands.groups, {loaded}; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", told], check=True, capture_output=True, text=True).stdout.split()
    assert [name for name in unwanted if name in found] == []


def test_the_collector_is_off_while_much_is_imported_and_on_afterwards() -> None:
    assert gc.isenabled()
    with pytest.raises(ImportError), LargeImport():
        assert not gc.isenabled()
        raise ImportError
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        with LargeImport():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
