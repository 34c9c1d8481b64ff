"""Output of jobs without -o outlives the attempt's folder, until it is old or there is too much of it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from gsched.agent.output import kept_outputs, removal_news, removed_outputs
from gsched.agent.output.kept_outputs import KEEP_S, KeptOutputs, KeptRun, too_much
from gsched.agent.output.removal_news import RemovalNews
from gsched.agent.output.removed_outputs import OutputRemoved
from gsched.base.machine.atomic_write import replace_file
from gsched.model.hosts.kept_output import MIB, KeptOutput
from gsched.wire.v1 import agent_pb2
from tests.support.manual_clock import ManualClock

BEGAN = 1_700_000_000.0


def attempt_folder(path: Path, stdout: bytes, stderr: bytes = b"") -> Path:
    path.mkdir()
    (path / "stdout").write_bytes(stdout)
    (path / "stderr").write_bytes(stderr)
    return path


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(BEGAN)


@pytest.fixture
def kept(tmp_path: Path, clock: ManualClock) -> KeptOutputs:
    return KeptOutputs(tmp_path / "outputs", clock)


class Host:
    """Runs `1.1`, `2.1` ... that end a second after each other; each has printed a MiB, or what is said."""

    def __init__(self, folder: Path, limits: KeptOutput) -> None:
        self.folder = folder
        self.clock = ManualClock(BEGAN)
        self.limits = limits
        self.kept = KeptOutputs(folder / "outputs", self.clock, limits)

    def ends(self, number: int, stdout: bytes = b"x" * MIB, stderr: bytes = b"", uid: int | None = None) -> None:
        self.clock.advance(1)
        source = attempt_folder(self.folder / f"{number}.1", stdout, stderr)
        if uid is not None:
            for stream in ("stdout", "stderr"):
                os.chown(source / stream, uid, uid)
        self.kept.keep(f"{number}.1", source)

    def tidy(self) -> None:
        asyncio.run(self.kept.look())

    def restart(self) -> None:
        self.kept = KeptOutputs(self.folder / "outputs", self.clock, self.limits)

    def whole(self) -> list[int]:
        """Of which runs all is there."""
        return sorted(int(path.name.split(".")[0]) for path in (self.folder / "outputs").glob("*.stdout"))

    def shown(self, number: int, offset: int = 0, stream: str = "stdout") -> str:
        return self.kept.read(f"{number}.1", stream, offset, 1000).decode()


def test_only_what_was_printed_is_kept(tmp_path: Path, kept: KeptOutputs) -> None:
    kept.keep("7.1", attempt_folder(tmp_path / "7.1", b"hello\n"))
    assert kept.read("7.1", "stdout", 0, 100) == b"hello\n"
    assert kept.read("7.1", "stdout", 2, 2) == b"ll"
    assert kept.read("7.1", "stdout", 6, 2) == b""
    assert kept.read("7.1", "stderr", 0, 100) == b""
    assert sorted(os.listdir(tmp_path / "outputs")) == ["7.1.stdout"]


def test_a_folder_that_is_gone_is_no_error(tmp_path: Path, kept: KeptOutputs) -> None:
    kept.keep("8.1", tmp_path / "8.1")
    assert kept.read("8.1", "stdout", 0, 100) == b""


def test_a_folder_of_kept_output_that_was_removed_is_made_again(tmp_path: Path, kept: KeptOutputs) -> None:
    (tmp_path / "outputs").rmdir()
    kept.keep("7.1", attempt_folder(tmp_path / "7.1", b"hello\n"))
    assert kept.read("7.1", "stdout", 0, 100) == b"hello\n"


def test_old_output_goes_in_silence(tmp_path: Path) -> None:
    host = Host(tmp_path, KeptOutput())
    host.ends(1, b"old\n" * 5000)
    os.utime(tmp_path / "outputs" / "1.1.stdout", (BEGAN + 9e9, BEGAN + 9e9))  # its user would have it for ever
    host.clock.advance(KEEP_S - 10)
    host.ends(2, b"young\n")
    host.tidy()
    assert (host.shown(1)[:4], host.shown(2)) == ("old\n", "young\n")
    host.clock.advance(20)
    host.tidy()
    assert host.shown(1)[:4] == "old\n"
    host.tidy()
    assert (host.shown(1), host.shown(2)) == ("", "young\n")
    assert host.kept.untold == {}


def test_a_clock_that_is_wrong_for_a_while_costs_nothing(tmp_path: Path) -> None:
    host = Host(tmp_path, KeptOutput())
    host.ends(1, b"kept\n" * 5000)
    right = host.clock
    host.kept._clock = ManualClock(BEGAN + 1e9)
    host.tidy()
    host.kept._clock = right
    host.tidy()
    host.tidy()
    assert host.shown(1)[:5] == "kept\n"


def test_the_oldest_of_a_user_goes_and_a_line_says_so(tmp_path: Path) -> None:
    host = Host(tmp_path, KeptOutput(run_mib=1, user_mib=3, host_mib=100))
    for number in (1, 2, 3):
        host.ends(number)
    host.tidy()
    assert host.whole() == [1, 2, 3]
    host.ends(4, b"x" * (MIB // 2), b"e" * (MIB // 8))
    host.tidy()
    assert host.whole() == [2, 3, 4]
    line = host.shown(1)
    assert line.startswith("[gsched: the output of this job (1 MiB) was removed on Nov 14 "), line
    assert line.endswith(": its user's jobs without -o had printed more than 3 MiB (GSCHED_KEPT_OUTPUT_USER_MIB)]\n")
    assert host.shown(1, len(line)) == "" and host.shown(1, 0, "stderr") == ""
    (gone,) = host.kept.untold.values()
    assert (gone.job_id, gone.attempt, gone.size, gone.limit_mib, gone.of_user) == (1, 1, MIB, 3, True)


def test_who_has_read_a_part_of_it_is_told_that_the_rest_is_gone(tmp_path: Path) -> None:
    host = Host(tmp_path, KeptOutput(run_mib=1, user_mib=1, host_mib=1))
    host.ends(1, b"x" * MIB, b"e" * 100)
    assert len(host.kept.read("1.1", "stdout", 0, 32768)) == 32768
    host.ends(2)
    host.tidy()
    with pytest.raises(OutputRemoved, match="was removed on"):
        host.kept.read("1.1", "stdout", 32768, 32768)
    with pytest.raises(OutputRemoved, match="was removed on"):
        host.kept.read("1.1", "stderr", 50, 32768)


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: files of several users")
def test_each_user_has_a_limit_and_the_host_has_one(tmp_path: Path) -> None:
    host = Host(tmp_path, KeptOutput(run_mib=1, user_mib=3, host_mib=5))
    host.ends(1, uid=2001)
    for number in (2, 3, 4, 5):
        host.ends(number, uid=2002)
    host.tidy()
    assert host.whole() == [1, 4, 5]  # what the other one prints costs the first nothing
    for number in (6, 7, 8):
        host.ends(number, uid=2003)
    host.tidy()
    assert host.whole() == [5, 6, 7, 8]
    assert host.kept.untold["1.1"].of_user is False
    assert "the host's jobs without -o had printed more than 5 MiB (GSCHED_KEPT_OUTPUT_HOST_MIB)" in host.shown(1)


def test_small_outputs_neither_count_nor_go(tmp_path: Path) -> None:
    host = Host(tmp_path, KeptOutput(run_mib=1, user_mib=1, host_mib=1))
    for number in range(1, 300):
        host.ends(number, b"a line\n", b"another\n")
    host.ends(300)
    host.tidy()
    assert len(host.whole()) == 300 and host.kept.untold == {}
    host.ends(301)
    host.tidy()
    assert host.kept.untold.keys() == {"300.1"}


def test_what_grows_after_the_end_of_its_job_costs_the_others_nothing(tmp_path: Path) -> None:
    host = Host(tmp_path, KeptOutput(run_mib=1, user_mib=3, host_mib=3))
    for number in (1, 2):
        host.ends(number)
    host.ends(3, b"x" * 20_000)
    with (tmp_path / "outputs" / "3.1.stdout").open("r+b") as left_open:
        left_open.write(b"x" * 20 * MIB)
        left_open.truncate(1 << 40)
        host.tidy()
        assert host.whole() == [1, 2, 3]
        host.ends(4)
        host.tidy()
        assert host.whole() == [3, 4]
        host.ends(5)
        host.ends(6)
        host.tidy()
        assert host.whole() == [5, 6]
        assert os.fstat(left_open.fileno()).st_blocks == 0  # its room is given back, whoever has it open


def test_what_its_user_has_linked_elsewhere_is_left_to_him(tmp_path: Path) -> None:
    host = Host(tmp_path, KeptOutput(run_mib=1, user_mib=1, host_mib=1))
    host.ends(1)
    os.link(tmp_path / "outputs" / "1.1.stdout", tmp_path / "mine")
    host.ends(2)
    host.tidy()
    assert host.whole() == [2] and (tmp_path / "mine").stat().st_size == MIB


def test_the_next_agent_knows_what_went_and_tells_it_until_it_is_known(tmp_path: Path) -> None:
    host = Host(tmp_path, KeptOutput(run_mib=1, user_mib=1, host_mib=1))
    host.ends(1)
    host.ends(2)
    host.tidy()
    assert host.kept.untold.keys() == {"1.1"}
    host.restart()
    host.tidy()
    assert host.kept.untold.keys() == {"1.1"}
    host.kept.are_told(["1.1", "9.1"])
    assert host.kept.untold == {}
    host.restart()
    host.tidy()
    assert host.kept.untold == {} and "was removed on" in host.shown(1)
    for entry in os.scandir(tmp_path / "outputs"):
        os.utime(entry.path, (BEGAN, BEGAN))
    host.clock.advance(KEEP_S + 2)
    host.tidy()
    assert host.shown(1) == "" and os.listdir(tmp_path / "outputs") == ["2.1.stdout"]


def test_what_is_told_while_files_are_looked_at_is_not_told_again(tmp_path: Path) -> None:
    host = Host(tmp_path, KeptOutput(run_mib=1, user_mib=1, host_mib=1))
    host.ends(1)
    host.ends(2)
    host.tidy()

    async def told_meanwhile() -> None:
        looking = asyncio.create_task(host.kept.look())
        await asyncio.sleep(0)
        host.kept.are_told(["1.1"])
        await looking

    asyncio.run(told_meanwhile())
    assert host.kept.untold == {}


def test_too_much_is_seen_to_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_outputs, "PAUSE_S", 0.0)
    host = Host(tmp_path, KeptOutput(run_mib=1, user_mib=2, host_mib=2))

    async def two_too_many() -> list[list[str]]:
        heard: list[list[str]] = []
        looked = asyncio.Event()

        def tell() -> None:
            heard.append(sorted(host.kept.untold))
            looked.set()

        watching = asyncio.create_task(host.kept.watch(tell))
        await looked.wait()
        for number in (1, 2, 3):
            host.ends(number)
        looked.clear()
        await looked.wait()
        watching.cancel()
        return heard

    assert asyncio.run(two_too_many()) == [[], ["1.1", "2.1"]]


def test_on_a_full_disk_the_line_is_written_into_the_room_that_it_gives_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(tmp_path, KeptOutput(run_mib=1, user_mib=1, host_mib=1))
    host.ends(1)
    host.ends(2)

    def replaced(path: str, data: bytes) -> None:
        if (tmp_path / "outputs" / "1.1.stdout").exists():
            raise OSError("the disk is full")
        replace_file(path, data)

    monkeypatch.setattr(removed_outputs, "replace_file", replaced)
    host.tidy()
    assert host.whole() == [2] and "was removed on" in host.shown(1)
    assert host.kept.untold.keys() == {"1.1"}


def test_a_line_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    host = Host(tmp_path, KeptOutput(run_mib=1, user_mib=1, host_mib=1))
    host.ends(1)
    host.ends(2)
    (tmp_path / "outputs" / "1.1.untold.new").mkdir()
    host.tidy()
    assert host.whole() == [2] and host.shown(1) == ""


def test_a_removal_that_an_agent_was_killed_in_is_completed(tmp_path: Path) -> None:
    host = Host(tmp_path, KeptOutput(run_mib=1, user_mib=1, host_mib=1))
    host.ends(1)
    host.ends(2)
    host.tidy()
    (tmp_path / "outputs" / "1.1.stdout").write_bytes(b"x" * MIB)
    host.limits = KeptOutput()
    host.restart()
    host.tidy()
    assert host.whole() == [2] and "was removed on" in host.shown(1) and host.kept.untold.keys() == {"1.1"}


def test_what_was_read_whole_and_then_removed_was_read_whole(tmp_path: Path) -> None:
    host = Host(tmp_path, KeptOutput(run_mib=1, user_mib=1, host_mib=1))
    host.ends(1)
    assert host.kept.read("1.1", "stdout", MIB, 100) == b""


def test_what_goes_wrong_is_logged_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kept_outputs, "LOOK_S", 0.001)
    host = Host(tmp_path, KeptOutput())
    tries = 0

    async def a_few_times() -> None:
        over = asyncio.Event()

        def tell() -> None:
            nonlocal tries
            tries += 1
            if tries < 3:
                raise RuntimeError("can't start new thread")
            over.set()

        watching = asyncio.create_task(host.kept.watch(tell))
        await over.wait()
        watching.cancel()

    asyncio.run(a_few_times())
    assert caplog.text.count("cannot be looked after") == 2 and "can't start new thread" in caplog.text


def test_the_newest_stays_however_much_it_is() -> None:
    runs = {f"{number}.1": KeptRun(1, size * MIB, float(number)) for number, size in ((1, 3), (2, 3), (3, 10))}
    assert too_much(runs, KeptOutput(run_mib=10, user_mib=10, host_mib=10)) == {"1.1": (10, True), "2.1": (10, True)}
    assert too_much(runs, KeptOutput(run_mib=10, user_mib=20, host_mib=10)) == {"1.1": (10, False), "2.1": (10, False)}


def test_the_master_is_told_so_much_at_a_time_and_not_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal_news, "MOST_TOLD", 2)
    host = Host(tmp_path, KeptOutput(run_mib=1, user_mib=1, host_mib=1))
    sent: list[list[int]] = []

    def send(message: agent_pb2.AgentMessage) -> None:
        sent.append([each.job_id for each in message.outputs_removed.outputs])

    news = RemovalNews(host.kept, send)
    news.tell()
    assert sent == []
    for number in (1, 2, 3, 4):
        host.ends(number)
    host.tidy()
    for _ in range(3):
        news.tell()
    assert sent == [[1, 2]]
    news.begin_session()  # the answer was lost
    news.tell()
    assert sent.pop() == [1, 2]
    news.are_known([(1, 1)])
    assert sent == [[1, 2]]
    news.are_known([(2, 1)])
    assert sent == [[1, 2], [3]]
    news.are_known([(3, 1)])
    assert sent == [[1, 2], [3]] and host.kept.untold == {}
