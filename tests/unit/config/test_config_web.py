"""GSCHED_WEB_*: where `gsched web` of a shared cluster listens, and who proves users; what cannot be has its line."""

from __future__ import annotations

import pytest
from config_texts import BASE

from gsched.config.configuration import check_texts
from gsched.master.reconfig_notes import told_at_start
from gsched.model.config import ClusterConfig
from gsched.model.web_front import WebFront

LINE = BASE["lsf.conf"].count("\n") + 1
SHARED = "LSB_MBD_PORT=6881\nLSF_MASTER_LIST=h1\n"
PORT = "GSCHED_WEB_PORT=8443\nGSCHED_WEB_CERT=/c.crt\nGSCHED_WEB_KEY=/c.key\n"


def config(lines: str = "") -> ClusterConfig:
    return check_texts("/conf", {**BASE, "lsf.conf": BASE["lsf.conf"] + lines}).required()


def test_without_a_word_nothing_is_served() -> None:
    for found in (config(), config(SHARED)):
        assert found.web == WebFront() and not found.web.is_on and found.web_hosts == ()


def test_passwords_or_a_proxy() -> None:
    found = config(SHARED + PORT + "GSCHED_WEB_NAMES=gpu.example.org\nGSCHED_WEB_PAM=sshd\n")
    assert found.web_hosts == ("h1",) and found.folder_of("web").endswith("/web")
    below = config(SHARED + PORT + 'GSCHED_WEB_NAMES="gpu.example.org *.GPU.example.org"\n').web
    assert (below.names, below.service_domains) == (("gpu.example.org",), ("gpu.example.org",))
    assert found.web.service_domains == ()
    assert (found.web.port, found.web.names, found.web.pam_service) == (8443, ("gpu.example.org",), "sshd")
    assert not found.web.is_behind_proxy and found.web.user_header == "remote-user"
    words = 'GSCHED_WEB_PROXIES="10.0.0.5 2001:DB8::1 group:www-data"\nGSCHED_WEB_USER_HEADER=X-Forwarded-User\n'
    web = config(SHARED + PORT + words).web
    assert web.is_behind_proxy and web.proxies == ("10.0.0.5", "2001:db8::1")
    assert (web.proxy_group, web.user_header) == ("www-data", "x-forwarded-user")
    on_this_host = config(SHARED + "GSCHED_WEB_PROXIES=group:www-data\n").web
    assert on_this_host.is_on and on_this_host.port is None


@pytest.mark.parametrize(
    ("lines", "place", "told"),
    [
        (PORT, 0, "a private cluster has one user"),
        (SHARED + "GSCHED_WEB_PORT=8443\nGSCHED_WEB_KEY=/k\n", 2, "GSCHED_WEB_CERT is not set"),
        (SHARED + "GSCHED_WEB_PORT=8443\nGSCHED_WEB_CERT=/k\n", 2, "GSCHED_WEB_KEY is not set"),
        (SHARED + PORT.replace("8443", "6881"), 2, "the master listens on port 6881"),
        (SHARED + PORT.replace("8443", "70000"), 2, "not a whole number from 1 to 65535"),
        (SHARED + PORT + "GSCHED_WEB_PROXIES=127.0.0.1\n", 5, "every user of this host can connect from there"),
        (SHARED + PORT + "GSCHED_WEB_PROXIES=::1\n", 5, "every user of this host"),
        (SHARED + PORT + "GSCHED_WEB_PROXIES=0.0.0.0\n", 5, "every user of this host"),
        (SHARED + PORT + "GSCHED_WEB_PROXIES=proxy.example.org\n", 5, "neither the address of a proxy nor group:NAME"),
        (SHARED + PORT + 'GSCHED_WEB_PROXIES="group:a group:b"\n', 5, "one socket, for one group"),
        (SHARED + "GSCHED_WEB_PROXIES=10.0.0.5\n", 2, "reaches GSCHED_WEB_PORT, which is not set"),
        (SHARED + PORT + "GSCHED_WEB_USER_HEADER=Remote-User\n", 5, "is what a proxy of GSCHED_WEB_PROXIES says"),
        (SHARED + PORT + "GSCHED_WEB_PROXIES=10.0.0.5\nGSCHED_WEB_USER_HEADER=Cookie\n", 6, "cannot be a header"),
        (SHARED + PORT + "GSCHED_WEB_PROXIES=10.0.0.5\nGSCHED_WEB_USER_HEADER=a_b\n", 6, "cannot be a header"),
        (SHARED + PORT + "GSCHED_WEB_PROXIES=10.0.0.5\nGSCHED_WEB_PAM=login\n", 6, "a proxy proves users"),
        (SHARED + PORT + "GSCHED_WEB_PAM=../login\n", 5, "cannot be the name of a service of PAM"),
        (SHARED + PORT + 'GSCHED_WEB_NAMES="*."\n', 5, "GSCHED_WEB_NAMES"),
        (SHARED + PORT + 'GSCHED_WEB_NAMES="a*.example.org"\n', 5, "a*.example.org"),
        (SHARED + "GSCHED_WEB_HOSTS=h1\n", 2, "GSCHED_WEB_PORT is listened on, which is not set"),
        (SHARED + PORT + "GSCHED_WEB_HOSTS=nosuch\n", 5, "nosuch is not a host of lsf.cluster"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(lines: str, place: int, told: str) -> None:
    loaded = check_texts("/conf", {**BASE, "lsf.conf": BASE["lsf.conf"] + lines})
    (error,) = [str(problem) for problem in loaded.problems if problem.severity == "error"]
    assert told in error
    assert error.startswith(f"/conf/lsf.conf:{LINE + place}: ")


def test_a_reconfig_says_when_a_change_takes_effect() -> None:
    (note,) = told_at_start(config(SHARED), config(SHARED + PORT))
    assert note == "GSCHED_WEB_* has changed: it takes effect when gsched-web.service is started again"
