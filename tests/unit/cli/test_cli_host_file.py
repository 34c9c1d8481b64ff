"""gsub -hostfile: what the master is asked for, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fake_master import FakeCall, FakeMaster

NewCall = Callable[..., FakeCall]


@pytest.mark.parametrize(
    ("text", "slots", "hosts", "res_req"),
    [
        ("a 2\n", 2, ("a",), "span[hosts=1]"),
        ("# two\nb\na 3 # more\n\nb 2\n", 6, ("b", "a"), "3*{select[hname==b]} + 3*{select[hname==a]}"),
    ],
)
def test_slots_on_each_host(
    master: FakeMaster, call: NewCall, text: str, slots: int, hosts: tuple[str, ...], res_req: str
) -> None:
    done = call("gsub", "-hostfile", "hosts.txt", "true")
    done.files["hosts.txt"] = text.encode()
    assert (done.run(), done.err) == (0, "")
    (asked,) = master.submissions
    assert (asked.spec.slots, asked.spec.hosts, asked.spec.first_hosts) == (slots, hosts, hosts[:1])
    assert asked.spec.res_req == res_req


@pytest.mark.parametrize(
    ("text", "words", "error"),
    [
        ("", [], "names no host"),
        ("a\nb x\n", [], "line 2: 'b x' is not HOST [SLOTS]"),
        ("a 0\n", [], "line 1: 'a 0' is not HOST [SLOTS]"),
        ("a]b 1\n", [], "line 1: 'a]b 1' is not HOST [SLOTS]"),
        ("a 1 2\n", [], "line 1: 'a 1 2' is not HOST [SLOTS]"),
        ("a\n", ["-n", "2"], "options -hostfile and -n exclude each other"),
        ("a\n", ["-R", "select[mem>1]"], "options -hostfile and -R exclude each other"),
    ],
)
def test_what_is_refused(master: FakeMaster, call: NewCall, text: str, words: list[str], error: str) -> None:
    done = call("gsub", "-hostfile", "hosts.txt", *words, "true")
    done.files["hosts.txt"] = text.encode()
    assert done.run() == 255 and error in done.err and done.err.endswith("Job not submitted.\n")
    assert master.submissions == []


def test_a_file_that_is_not_there(master: FakeMaster, call: NewCall) -> None:
    done = call("gsub", "-hostfile", "none", "true")
    assert done.run() == 255 and "No such file or directory" in done.err
    assert master.submissions == []
