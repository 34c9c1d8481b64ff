"""ghosts, gload, gqueues, gid and ghist as a person calls them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_master import FakeCall, FakeMaster, record, spec
from test_cli_history import job_220, job_221

from gsched.model import event as events
from gsched.model.views.view import EventRecord, HostView, QueueView, ResourceValue

NewCall = Callable[..., FakeCall]
GOLDEN = Path(__file__).parent.parent / "render" / "golden"


def host(name: str = "ubuntu02", **changes: object) -> HostView:
    load = {"r15s": 0.0, "r1m": 0.0, "r15m": 0.0, "ut": 0.0, "pg": 0.0, "io": 29.0, "ls": 1.0, "it": 0.0}
    sizes = {"tmp": 782 * 1024.0, "swp": 37.6 * 1024, "mem": 125 * 1024.0}
    values: dict[str, object] = {
        "name": name,
        "status": "ok",
        "cpu_factor": 250.0,
        "max_slots": 16,
        "slots_free": 16,
        "load": load | sizes,
        "externals": (
            ResourceValue(name="ngpus", total=4.0, reserved=0.0),
            ResourceValue(name="ngpus_shared", total=0.0, reserved=0.0),
            ResourceValue(name="ngpus_excl_t", total=0.0, reserved=0.0, consumable=True),
            ResourceValue(name="ngpuprohibited", total=0.0),
            ResourceValue(name="ngpus_excl_p", total=4.0, reserved=0.0, consumable=True),
        ),
    }
    return HostView(**(values | changes))  # type: ignore[arg-type]


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


def test_long_host_record_is_the_transcript(master: FakeMaster, call: NewCall) -> None:
    master.host_views = [host()]
    ghosts = call("bhosts", "-l")
    assert (ghosts.run(), ghosts.err) == (0, "")
    assert words(ghosts.out) == words((GOLDEN / "bhosts_l_1.txt").read_text())


def test_long_host_record_explains_itself(master: FakeMaster, call: NewCall) -> None:
    note = "no GPUs: the NVIDIA driver library was not found"
    master.host_views = [host(notes=(note,), comment="broken fan", status="closed_Adm")]
    ghosts = call("ghosts", "-l", "ubuntu02")
    assert ghosts.run() == 0
    assert note in ghosts.out
    assert "broken fan" in ghosts.out


def test_hosts_on_which_jobs_fail(master: FakeMaster, call: NewCall) -> None:
    master.host_views = [host("a", exit_limit=2, exits=3), host("b", exit_limit=2, exits=2), host("c", exits=9)]
    beyond, long = call("bhosts", "-x"), call("bhosts", "-l", "b")
    in_json = call("bhosts", "-x", "-o", "host_name", "-json")
    assert (beyond.run(), long.run(), in_json.run()) == (0, 0, 0)
    assert [line.split()[0] for line in beyond.out.splitlines()] == ["HOST_NAME", "a"]
    table = "           JOB_EXIT_RATE\n Threshold    2.00\n Load         2.00\n"
    assert f" THRESHOLD AND LOAD USED FOR EXCEPTIONS:\n{table}" in long.out
    assert json.loads(in_json.out)["RECORDS"] == [{"HOST_NAME": "a"}]
    master.host_views = [host("b", exit_limit=2)]
    none, none_in_json = call("bhosts", "-x"), call("bhosts", "-x", "-o", "host_name", "-json")
    assert (none.run(), none_in_json.run()) == (0, 0)
    assert none.out == "There is no exceptional host found\n"
    assert json.loads(none_in_json.out)["HOSTS"] == 0


def test_short_and_wide(master: FakeMaster, call: NewCall) -> None:
    master.host_views = [host(status="closed_Full", njobs=16, run=16), host("a")]
    short, wide = call("ghosts"), call("ghosts", "-w")
    assert (short.run(), wide.run()) == (0, 0)
    assert short.out.splitlines()[1].split()[:2] == ["ubuntu02", "closed"]
    assert wide.out.splitlines()[1].split()[:2] == ["ubuntu02", "closed_Full"]


def test_chosen_host_fields(master: FakeMaster, call: NewCall) -> None:
    master.host_views = [host()]
    ghosts = call("bhosts", "-o", "host_name max ngpus_excl_avail", "-json")
    assert ghosts.run() == 0
    assert json.loads(ghosts.out) == {
        "COMMAND": "bhosts",
        "HOSTS": 1,
        "RECORDS": [{"HOST_NAME": "ubuntu02", "MAX": "16", "NGPUS_EXCL_AVAIL": "4"}],
    }


@pytest.mark.parametrize("argv", [["ghosts", "nosuch"], ["gload", "nosuch"]])
def test_unknown_host(master: FakeMaster, call: NewCall, argv: list[str]) -> None:
    command = call(*argv)
    assert (command.run(), command.out) == (255, "")
    assert command.err == "nosuch: Bad host name, host group name or cluster name\n"


def test_load_puts_the_idle_first_and_the_lost_last(master: FakeMaster, call: NewCall) -> None:
    master.host_views = [
        host("lost", status="unavail", load={}),
        host("busy", load={"r15s": 3.0, "pg": 0.0}),
        host("idle", load={"r15s": 0.5, "pg": 9.0}),
        host("unknown", load={}),
    ]
    gload = call("lsload", "-noheader")
    assert gload.run() == 0
    assert [line[0] for line in words(gload.out)] == ["idle", "busy", "unknown", "lost"]


def test_queues(master: FakeMaster, call: NewCall) -> None:
    master.queue_views = [QueueView(name="night", priority=40), QueueView(name="normal", priority=30, pend=2, njobs=2)]
    short = call("gqueues")
    assert short.run() == 0
    assert [line[:3] for line in words(short.out)[1:]] == [
        ["night", "40", "Open:Active"],
        ["normal", "30", "Open:Active"],
    ]
    long = call("bqueues", "-l", "normal")
    assert long.run() == 0
    assert "QUEUE: normal\n" in long.out
    assert "This is the default queue." in long.out
    chosen = call("bqueues", "-o", "queue_name pend", "-noheader")
    assert (chosen.run(), chosen.out) == (0, "night 0\nnormal 2\n")
    unknown = call("gqueues", "x")
    assert (unknown.run(), unknown.err) == (255, "x: No such queue\n")


def test_identity_ends_with_what_tools_read(master: FakeMaster, call: NewCall) -> None:
    gid = call("lsid")
    assert gid.run() == 0
    assert gid.out.splitlines()[-2:] == ["My cluster name is firestone", "My master name is ubuntu02"]


def test_history_command(master: FakeMaster, call: NewCall) -> None:
    master.histories = {220: job_220().events, 221: job_221().events}
    ghist = call("bhist", "-l", "220")
    assert (ghist.run(), ghist.err) == (0, "")
    wanted = (GOLDEN / "bhist_220.txt").read_text().strip().splitlines()
    assert [line.rstrip() for line in ghist.out.strip().splitlines()] == wanted
    assert master.filters[-1].finished
    short = call("ghist", "-a")
    assert short.run() == 0
    assert words(short.out)[2] == ["220", "test", "*uick.sh", "1", "0", "91", "0", "0", "0", "92"]


def test_history_of_a_job_that_still_waits_counts_up_to_now(
    master: FakeMaster, call: NewCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = 1_800_000_000.0
    monkeypatch.setattr("time.time", lambda: begin + 100)
    master.histories = {9: (record(1, events.JobSubmitted(at=begin, job_id=9, spec=spec())),)}
    ghist = call("ghist", "-l", "9")
    assert ghist.run() == 0
    assert words(ghist.out)[-1][0] == "100"


def test_history_of_nobody(master: FakeMaster, call: NewCall) -> None:
    ghist = call("ghist", "-l", "9")
    assert (ghist.run(), ghist.out, ghist.err) == (255, "No matching job found\n", "")


def test_history_names_what_is_missing_or_broken(master: FakeMaster, call: NewCall) -> None:
    broken = EventRecord(seq=1, at=0.0, kind="job_submitted", job_id=7, payload="nonsense")
    master.histories = {220: job_220().events, 7: (broken,)}
    ghist = call("ghist", "-l", "220", "7", "8")
    assert ghist.run() == 255
    assert "Done successfully" in ghist.out
    assert ghist.err == ("Job <7>: the record of its submission cannot be read\nJob <8>: No matching job found\n")


@pytest.mark.parametrize(
    "name", ["gid", "gqueues", "ghosts", "gload", "gjobs", "ghist", "gkill", "gstop", "gresume", "gpeek"]
)
def test_every_command_has_help_and_version(call: NewCall, name: str) -> None:
    shown, version = call(name, "-h"), call(name, "-V")
    assert (shown.run(), version.run()) == (0, 0)
    assert shown.out.startswith(f"{name}: ")
    assert version.out.startswith("gsched ")
