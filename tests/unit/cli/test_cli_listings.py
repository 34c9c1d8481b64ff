"""What gjobs shows beside its usual columns, how it narrows down, and what lsf.conf says about it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_master import FakeCall, FakeMaster, allocation, record, spec
from test_cli_gjobs import pending, running

from gsched.cli.commands.job_views import gjobs
from gsched.cli.options.job_filters import reserved_names
from gsched.cli.session.watch import _cut
from gsched.model import event as events
from gsched.model.hosts.host import Gpu
from gsched.model.views.view import GpuView, HostView

NewCall = Callable[..., FakeCall]
HEADER = "JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME"


@pytest.mark.parametrize(
    ("option", "heading", "values"),
    [("-WL", "TIME_LEFT", ("0:29 L", "-")), ("-WP", "%COMPLETE", ("1.67% L", "-")), ("-WF", "FINISH_TIME", None)],
)
def test_a_column_about_time(
    master: FakeMaster,
    call: NewCall,
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    heading: str,
    values: tuple[str, str] | None,
) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    limited = spec("train_01.sh", run_limit_s=1800)
    master.views = [running(8, spec=limited, dispatched_at=now - 30, submitted_at=now - 31), pending(9)]
    listing = call("bjobs", option)
    assert listing.run() == 0
    lines = listing.out.splitlines()
    assert lines[0] == f"{HEADER}    {heading}"
    shown = [line[83:] for line in lines[1:]]
    if values:
        assert tuple(shown) == values
    else:
        assert shown[0].endswith(" L") and shown[1] == "-"
    wide = call("bjobs", "-w", option)
    assert wide.run() == 0 and wide.out.splitlines()[0] == lines[0]


def test_slots_are_summed_up_by_state(master: FakeMaster, call: NewCall) -> None:
    master.views = [
        running(8, allocation=allocation(slots=4)),
        running(7, allocation=allocation(slots=2), state="USUSP"),
        pending(9, spec=spec(slots=3)),
    ]
    listing = call("bjobs", "-sum", "-rusage", "")  # a question that the master does not know
    assert listing.run() == 0
    assert listing.out == (
        "RUN        SSUSP       USUSP      UNKNOWN    PEND       FWD_PEND  PSUSP\n"
        "4          0           2          0          3          0         0\n"
    )


def test_the_master_sums_slots_up_where_the_jobs_are(master: FakeMaster, call: NewCall) -> None:
    master.views = [running(8)]  # not sent
    master.slot_sums = {"RUN": 400_000, "UNKWN": 2, "ZOMBI": 1, "PEND": 7}
    listing = call("bjobs", "-sum", "-noheader", "-u", "all", "-q", "night", "-app", "training")
    assert listing.run() == 0
    assert listing.out == "400000     0           0          3          7          0         0\n"
    (asked,) = master.filters
    assert (asked.user, asked.queue, asked.application) == ("all", "night", "training")


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("-G", "physics"), ["7"]),
        (("-Jd", "first*"), ["8"]),
        (("-U", "ann#0"), ["9"]),
        (("-rusage", "mem,ngpus_excl_p"), ["9"]),
        (("-rusage", "mem"), ["8", "9"]),
        (("-rusage", "mem", "-Jd", "first*"), ["8"]),
        (("-app", "training"), ["8"]),
        (("-G", "none"), []),
    ],
)
def test_filters_that_the_master_does_not_know(
    master: FakeMaster, call: NewCall, options: tuple[str, ...], found: list[str]
) -> None:
    master.views = [
        pending(7, spec=spec(user_group="physics")),
        pending(
            8,
            spec=spec(
                description="first try", application="training", combined_req="select[type == any] rusage[mem=10.00]"
            ),
        ),
        pending(9, spec=spec(reservation="ann#0", combined_req="rusage[mem=1.00:duration=5,ngpus_excl_p=2.00]")),
    ]
    listing = call("gjobs", "-noheader", "-o", "id", *options)
    assert (listing.run(), listing.out.split()) == (0, found)
    assert listing.err == ("" if found else "No unfinished job found\n")


def test_names_in_rusage() -> None:
    text = "{2*{rusage[a=1.00:b=2.00:duration=5:decay=1]}} + {rusage[c=1.00/host || d=2.00]} span[hosts=1]"
    assert reserved_names(text) == {"a", "b", "c", "d"}


def test_lsf_conf_says_what_the_environment_does_not(master: FakeMaster, call: NewCall, folder: Path) -> None:
    lines = "LSB_BJOBS_FORMAT='jobid stat'\nLSB_BJOBS_CONSISTENT_EXIT_CODE=Y\n"
    (folder / "lsf.conf").write_text(lines)
    master.views = [pending(7)]
    plain = call("bjobs")
    assert (plain.run(), plain.out) == (0, "JOBID STAT\n7 PEND\n")
    other = call("bjobs", LSB_BJOBS_FORMAT="stat:6")
    assert (other.run(), other.out) == (0, "STAT  \nPEND  \n")
    wrong = call("bjobs", LSB_BJOBS_FORMAT="jobid foo")
    assert (wrong.run(), wrong.err.startswith("bjobs: LSB_BJOBS_FORMAT: -o: unknown field 'foo'")) == (255, True)
    master.views = []
    assert call("bjobs").run() == 255
    assert call("bjobs", LSB_BJOBS_CONSISTENT_EXIT_CODE="N").run() == 0


def test_watching_shows_what_happened_until_it_is_broken_off(master: FakeMaster, call: NewCall) -> None:
    master.views = [pending(7)]
    listing = call("gjobs", "-noheader", "-o", "id stat", "--watch")
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(listing.run()))
    thread.start()
    _until(lambda: "7 PEND\n-- " in listing.out)
    master.views = [running(7)]
    master.live.put(record(1, events.JobPostProcessed(at=1.0, job_id=7, attempt=1)))
    _until(lambda: "7 RUN\n-- " in listing.out)
    listing.cancel()
    thread.join(60)
    assert codes == [130]
    assert listing.out.count("7 PEND") == 1 and listing.err == ""


def test_on_a_terminal_it_is_watched_on_its_other_screen(master: FakeMaster, call: NewCall) -> None:
    master.views = [pending(7)]
    listing = call("gjobs", "-noheader", "-o", "id stat", "--watch", TERM="xterm")
    listing.stdout_is_tty = True
    assert _watched(listing, "7 PEND\n\n") == 130
    assert listing.out.startswith("\x1b[?1049h") and listing.out.endswith("\x1b[?1049l")
    assert "\x1b[3J" not in listing.out  # which would delete what can be scrolled back to
    assert "; ^C ends this" in listing.out and listing.err == ""


def test_on_a_terminal_the_other_screen_is_left_when_the_listing_fails(
    master: FakeMaster, call: NewCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise RuntimeError("a fault of any kind")

    monkeypatch.setattr(gjobs, "_show", fail)
    listing = call("gjobs", "--watch", TERM="xterm")
    listing.stdout_is_tty = True
    assert listing.run() == 255
    assert listing.out.endswith("\x1b[?1049l") and listing.err.startswith("gjobs: internal error: ")


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_without_screens_gets_one_listing_below_the_other(
    master: FakeMaster, call: NewCall, term: str
) -> None:
    master.views = [pending(7)]
    listing = call("gjobs", "--watch", TERM=term)
    listing.stdout_is_tty = True
    assert _watched(listing, "\n-- ") == 130
    assert "\x1b" not in listing.out


@pytest.mark.parametrize(("option", "shown"), [("-psum", "pending jobs in cluster"), ("-A", "No job array found")])
def test_arrays_and_the_summary_are_watched_too(master: FakeMaster, call: NewCall, option: str, shown: str) -> None:
    listing = call("gjobs", option, "--watch")
    assert _watched(listing, "-- ") == 130
    assert shown in listing.out + listing.err


@pytest.mark.parametrize("words", [("ghosts",), ("ghosts", "-gpu"), ("ghosts", "-l"), ("gload",), ("gqueues", "-l")])
def test_hosts_and_queues_are_watched_too(master: FakeMaster, call: NewCall, words: tuple[str, ...]) -> None:
    once = call(*words)
    assert once.run() == 0
    listing = call(*words, "--watch")
    assert _watched(listing, "-- ") == 130
    assert listing.out.startswith(once.out)


def test_what_does_not_fit_on_the_screen_is_cut() -> None:
    text = "".join(f"{number}\n" for number in range(30))
    assert _cut(text, 0) == _cut(text, 32) == text
    assert _cut(text, 12) == "".join(f"{number}\n" for number in range(9)) + "... and 21 lines more\n"


def _watched(listing: FakeCall, shown: str) -> int:
    """Its exit code when it is broken off after it has shown this."""
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(listing.run()))
    thread.start()
    _until(lambda: shown in listing.out)
    listing.cancel()
    thread.join(60)
    return codes[0]


def _until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_gpus_of_a_job_one_by_one(master: FakeMaster, call: NewCall) -> None:
    links = {"GPU-0": ("GPU-1",), "GPU-1": ("GPU-0",), "GPU-2": ()}
    gpus = tuple(
        GpuView(gpu=Gpu(uuid=uuid, index=index, model="Tesla V100-PCIE-32GB", memory_mib=32480, numa=8, links=linked))
        for index, (uuid, linked) in enumerate(links.items())
    )
    master.host_views = [HostView(name="ubuntu02", status="ok", gpus=gpus)]
    master.views = [running(8, allocation=allocation(0, 1, 2))]
    listing = call("bjobs", "-l", "-gpu", "8")
    assert listing.run() == 0
    heading = (
        " HOST             TASK GPU_ID  GI_PLACEMENT/SIZE    CI_PLACEMENT/SIZE    MODEL        MTOTAL  FACTOR MRSV    "
        "SOCKET NVLINK/XGMI"
    )
    row = "{:<18}0    {}       -                    -                    TeslaV100_PC 31.7G   -      0M      8      {}"
    lines = [line.rstrip() for line in listing.out.partition(" GPU_ALLOCATION:\n")[2].splitlines()]
    assert lines == [
        heading,
        row.format(" ubuntu02", 0, "-/Y/N"),
        row.format("", 1, "Y/-/N"),
        row.format("", 2, "N/N/-"),
    ]


@pytest.mark.parametrize("options", [(), ("-p",), ("-w",), ("-w", "-p"), ("-noheader",), ("-a",), ("-q", "nowhere")])
def test_a_master_of_before_is_asked_for_whole_jobs(
    master: FakeMaster, call: NewCall, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setattr(time, "time", lambda: 2_000_000_000.0)
    long_name = spec("train_01.sh", name="a-name-longer-than-its-column")
    master.views = [running(8), running(7, allocation=allocation(slots=2)), pending(9), pending(10, spec=long_name)]
    told = call("gjobs", *options)
    code = told.run()
    master.has_tables = False
    of_before = call("gjobs", *options)
    assert (of_before.run(), of_before.out, of_before.err) == (code, told.out, told.err)
    assert told.out.count("\n") >= len(master.views) or "nowhere" in options
    assert len(master.filters) == 2, "one question by each way"
