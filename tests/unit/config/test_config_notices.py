"""GSCHED_NOTIFY and GSCHED_NOTIFY_PROXY: how users may have notices sent; what cannot be is refused at its line."""

from __future__ import annotations

import pytest
from config_texts import BASE

from gsched.config.configuration import check_texts
from gsched.model.config import Params
from gsched.model.jobs.notice import WAYS

LINE = BASE["lsf.conf"].count("\n") + 1


def params(lines: str = "") -> Params:
    return check_texts("/conf", {**BASE, "lsf.conf": BASE["lsf.conf"] + lines}).required().params


@pytest.mark.parametrize(
    ("line", "ways"),
    [
        ("", WAYS),
        ('GSCHED_NOTIFY="mail webhook"', ("webhook", "mail")),
        ("GSCHED_NOTIFY=command", ("command",)),
        ("GSCHED_NOTIFY=none", ()),
    ],
)
def test_ways_that_are_open(line: str, ways: tuple[str, ...]) -> None:
    assert params(f"{line}\n").notice_ways == ways


@pytest.mark.parametrize(("line", "proxy"), [("", ""), ("GSCHED_NOTIFY_PROXY=http://proxy:3128", "http://proxy:3128")])
def test_a_proxy(line: str, proxy: str) -> None:
    assert params(f"{line}\n").notice_proxy == proxy


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("GSCHED_NOTIFY=smoke", "'smoke' is none of webhook, command, mail; none turns all of them off"),
        ('GSCHED_NOTIFY="mail none"', "'none' is none of webhook"),
        ("GSCHED_NOTIFY_PROXY=proxy:3128", "'proxy:3128' is not of the form http://HOST:PORT"),
        ("GSCHED_NOTIFY_PROXY=http://proxy", "is not of the form http://HOST:PORT"),
        ("GSCHED_NOTIFY_PROXY=https://proxy:1", "is not of the form http://HOST:PORT"),
        ("GSCHED_NOTIFY_PROXY=http://proxy:99999", "is not of the form http://HOST:PORT"),
        ("GSCHED_NOTIFY_PROXY=http://ann:pw@proxy:1", "everybody can read lsf.conf"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(line: str, told: str) -> None:
    loaded = check_texts("/conf", {**BASE, "lsf.conf": BASE["lsf.conf"] + f"{line}\n"})
    (error,) = [str(problem) for problem in loaded.problems if problem.severity == "error"]
    assert error.startswith(f"/conf/lsf.conf:{LINE}: ") and told in error
