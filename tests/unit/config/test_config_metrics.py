"""GSCHED_METRICS: where the master serves its metrics; what cannot be is refused at its line."""

from __future__ import annotations

import pytest
from config_texts import BASE

from gsched.config.configuration import check_texts
from gsched.master.reconfig_notes import told_at_start
from gsched.model.config import ClusterConfig, MetricsEndpoint

LINE = BASE["lsf.conf"].count("\n") + 1
SHARED = "LSB_MBD_PORT=6881\nLSF_MASTER_LIST=h1\n"


def config(lines: str = "") -> ClusterConfig:
    return check_texts("/conf", {**BASE, "lsf.conf": BASE["lsf.conf"] + lines}).required()


def test_without_a_word_nothing_is_served() -> None:
    assert config().metrics == MetricsEndpoint()
    assert not config().metrics.is_on


def test_a_socket_a_port_and_a_token() -> None:
    at = f"/conf/lsf.conf:{LINE}"
    assert config("GSCHED_METRICS=/run/m.sock\n").metrics == MetricsEndpoint(socket="/run/m.sock", source=at)
    local = config("GSCHED_METRICS=127.0.0.1:9400\nGSCHED_METRICS_TOKEN_FILE=/etc/token\n").metrics
    assert (local.host, local.port, local.token_file) == ("127.0.0.1", 9400, "/etc/token")
    assert (local.source, local.token_source) == (at, f"/conf/lsf.conf:{LINE + 1}")
    assert config("GSCHED_METRICS=[::1]:9400\nGSCHED_METRICS_TOKEN_FILE=/t\n").metrics.host == "::1"
    assert config(SHARED + "GSCHED_METRICS=0.0.0.0:9400\n").metrics.host == "0.0.0.0"
    assert all(each.metrics.is_on for each in (config("GSCHED_METRICS=/s\n"), config(SHARED + "GSCHED_METRICS=h1:9\n")))


@pytest.mark.parametrize(
    ("lines", "place", "told"),
    [
        ("GSCHED_METRICS=9400\n", 0, "neither the path of a unix socket nor HOST:PORT"),
        ("GSCHED_METRICS=on\n", 0, "neither the path of a unix socket nor HOST:PORT"),
        ("GSCHED_METRICS=localhost:99999\n", 0, "99999"),
        ("GSCHED_METRICS=[1.2]:9400\n", 0, "no IPv6 address"),
        ('GSCHED_METRICS="a b:9400"\n', 0, "cannot be the name of a host"),
        (f"GSCHED_METRICS=/{'x' * 107}\n", 0, "at most 107"),
        ("GSCHED_METRICS=localhost:9400\n", 0, "must prove itself"),
        ("GSCHED_METRICS=0.0.0.0:9400\n", 0, "in the clear"),
        (f"{SHARED}GSCHED_METRICS=h1:6881\n", 2, "listens for others on port 6881"),
        ("GSCHED_METRICS_TOKEN_FILE=/t\n", 0, "GSCHED_METRICS names, which is not set"),
        ("GSCHED_METRICS=/s\nGSCHED_METRICS_TOKEN_FILE=/t\n", 1, "for its owner alone"),
        ("GSCHED_METRICS=localhost:1\nGSCHED_METRICS_TOKEN_FILE=token\n", 1, "not an absolute path"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(lines: str, place: int, told: str) -> None:
    loaded = check_texts("/conf", {**BASE, "lsf.conf": BASE["lsf.conf"] + lines})
    (error,) = [str(problem) for problem in loaded.problems if problem.severity == "error"]
    assert told in error
    assert error.startswith(f"/conf/lsf.conf:{LINE + place}: ")


def test_a_reconfig_says_when_a_change_takes_effect() -> None:
    (note,) = told_at_start(config(), config("GSCHED_METRICS=/s\n"))
    assert "GSCHED_METRICS has changed" in note and "mbdrestart" in note
    assert not list(told_at_start(config("GSCHED_METRICS=/s\n"), config("\nGSCHED_METRICS=/s\n"))), "a line has moved"
