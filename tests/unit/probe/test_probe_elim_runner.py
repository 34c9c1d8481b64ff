"""Tests of running elims: real programs, real processes."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from bounded_loop import run_async

from gsched.base.coded_text import AnyText, sentence
from gsched.probe.elims import elim_program
from gsched.probe.elims.elim import ElimResource, ElimRules, ElimRunner, find_elims
from gsched.probe.elims.elim_format import ElimParser, Report
from gsched.probe.elims.elim_program import READ_PAUSE_S, pause_before_start
from tests.support.manual_clock import ManualClock

Make = Callable[..., Path]

WANTED = {"temp": ElimResource(60.0), "rack": ElimResource(60.0, is_string=True)}
FOREVER = "exec sleep 600\n"


class Seen(NamedTuple):
    values: dict[str, float | str]
    notes: tuple[AnyText, ...]


class Watched:
    """A runner whose changes can be waited for."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self._awaited: Callable[[ElimRunner], object] = lambda _: False
        self._met: asyncio.Future[Seen] | None = None
        self.runner = ElimRunner(folder, on_change=self._look, **{"rules": ElimRules(restart_s=0.1), **options})

    def _look(self) -> None:
        if self._met is not None and not self._met.done() and self._awaited(self.runner):
            self._met.set_result(Seen(self.runner.values(), self.runner.notes()))

    async def until(self, happened: Callable[[ElimRunner], object]) -> Seen:
        """What was seen at the very change that made it so: a slow machine may look again after the next one."""
        self._awaited, self._met = happened, asyncio.get_running_loop().create_future()
        self._look()
        return await self._met


def with_runner(folder: Path, story: Callable[[Watched], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def run() -> None:
        watched = Watched(folder, **options)
        try:
            await watched.runner.reconfigure(WANTED)
            await story(watched)
        finally:
            await watched.runner.close()
            await watched.runner.close()

    run_async(run())


def test_which_files_are_elims(tmp_path: Path, elim: Make) -> None:
    for name in ("elim", "elim.gpu", "elim.a.b"):
        elim(name, "")
    for name in (
        "elim.user",
        "elim.gpu~",
        "elim.gpu.bak",
        "elim.old",
        "elim.gpu.orig",
        "elim.dpkg-dist",
        "melim",
        "lim",
    ):
        elim(name, "")
    elim("elim.asleep", "").chmod(0o644)
    (tmp_path / "server" / "elim.folder").mkdir()
    assert [path.name for path in find_elims(tmp_path / "server")] == ["elim", "elim.a.b", "elim.gpu"]
    assert find_elims(tmp_path / "missing") == []


def test_values_of_several_elims_are_merged(tmp_path: Path, elim: Make) -> None:
    elim("elim.a", f"echo 1 temp 21.5\n{FOREVER}")
    elim("elim.b", f"echo 2 rack A7 foo 1\n{FOREVER}")

    async def story(watched: Watched) -> None:
        await watched.until(lambda runner: len(runner.values()) == 2)
        assert watched.runner.values() == {"temp": 21.5, "rack": "A7"}
        assert tuple(map(sentence, watched.runner.notes())) == (
            "elim.b: 'foo' is not a resource of this host, ignored",
        )

    with_runner(tmp_path / "server", story)


def test_what_an_elim_is_told(tmp_path: Path, elim: Make) -> None:
    variables = "$LSF_RESOURCES/$LSF_MASTER/$ELIM_ABORT_VALUE/$LSF_SERVERDIR/$LSF_ENVDIR/$GSCHED_ENVDIR"
    elim("elim.a", f'echo "1 rack $(echo "{variables}" | tr " " +)"\n{FOREVER}')

    async def story(watched: Watched) -> None:
        await watched.until(lambda runner: runner.values())
        folder = tmp_path / "server"
        assert watched.runner.values() == {"rack": f"temp+rack/N/99/{folder}//etc/gsched//etc/gsched"}
        await watched.runner.reconfigure({"rack": WANTED["rack"]}, is_master=True)
        await watched.until(lambda runner: runner.values())
        assert str(watched.runner.values()["rack"]).startswith("rack/Y/99/")

    with_runner(tmp_path / "server", story, conf_dir="/etc/gsched")


def test_elim_that_is_killed_makes_its_values_unknown_and_is_started_again(tmp_path: Path, elim: Make) -> None:
    elim("elim.a", f"echo 2 temp $$ rack A7\n{FOREVER}")

    async def story(watched: Watched) -> None:
        runner = watched.runner
        await watched.until(lambda _: runner.values())
        first = int(runner.values()["temp"])
        os.kill(first, signal.SIGKILL)
        seen = await watched.until(lambda _: not runner.values())
        assert tuple(map(sentence, seen.notes)) == ("elim.a: was ended by signal 9; started again now",)
        seen = await watched.until(lambda _: runner.values())
        assert seen.values["temp"] != first
        assert seen.notes == ()

    with_runner(tmp_path / "server", story)


def test_elim_that_ends_in_peace_leaves_its_word(tmp_path: Path, elim: Make) -> None:
    elim("elim.a", "echo 1 temp 5\n")

    async def story(watched: Watched) -> None:
        await watched.until(lambda runner: runner.notes())
        assert watched.runner.values() == {"temp": 5.0}
        assert tuple(map(sentence, watched.runner.notes())) == (
            "elim.a: ended with exit code 0; started again in 60 s",
        )

    with_runner(tmp_path / "server", story, rules=ElimRules(restart_s=60.0))


def test_failing_elim_is_noted_with_its_last_words_and_its_values_are_void(tmp_path: Path, elim: Make) -> None:
    elim("elim.a", "echo 1 temp 5\necho no sensor >&2\nexit 3\n")

    async def story(watched: Watched) -> None:
        await watched.until(lambda runner: runner.notes())
        assert watched.runner.values() == {}
        assert tuple(map(sentence, watched.runner.notes())) == (
            "elim.a: ended with exit code 3 ('no sensor'); started again in 60 s",
        )

    with_runner(tmp_path / "server", story, rules=ElimRules(restart_s=60.0))


def test_time_between_starts_grows_while_an_elim_fails() -> None:
    assert [pause_before_start(90.0, failures, 0.0) for failures in range(6)] == [90, 90, 180, 360, 720, 900]
    assert pause_before_start(90.0, 10**9, 0.0) == 900.0
    assert pause_before_start(90.0, 2, 30.0) == 150.0
    assert pause_before_start(90.0, 0, 3600.0) == 0.0


def test_elim_that_keeps_failing_is_started_again_and_again(tmp_path: Path, elim: Make) -> None:
    starts = tmp_path / "starts"
    elim("elim.a", f'echo x >> {starts}\n[ "$(wc -l < {starts})" -lt 4 ] && exit 1\necho 1 temp 1\n{FOREVER}')

    async def story(watched: Watched) -> None:
        await watched.until(lambda runner: runner.values())

    with_runner(tmp_path / "server", story, rules=ElimRules(restart_s=0.01))
    assert starts.read_text() == "x\n" * 4


def test_rubbish_ends_the_elim(tmp_path: Path, elim: Make) -> None:
    elim("elim.a", f"echo 1 temp 5\necho 2 temp 6\necho what is that\n{FOREVER}")
    pids = tmp_path / "pids"
    elim("elim.b", f"echo $$ >> {pids}; echo 1 rack A7\necho x; {FOREVER}")

    async def story(watched: Watched) -> None:
        await watched.until(lambda runner: len(runner.notes()) == 2)
        assert watched.runner.values() == {}
        assert sentence(watched.runner.notes()[0]).startswith("elim.")
        assert "stands where the number of pairs is wanted; started again in 60 s" in sentence(
            watched.runner.notes()[0]
        )
        assert any("'x'" in sentence(note) for note in watched.runner.notes())
        with pytest.raises(ProcessLookupError):
            os.kill(int(pids.read_text().split()[0]), 0)

    with_runner(tmp_path / "server", story, rules=ElimRules(restart_s=60.0))


def test_an_elim_that_says_nothing_is_named(tmp_path: Path, elim: Make) -> None:
    elim("elim.a", f"printf '2 temp 5'\n{FOREVER}")
    elim("elim.b", f"echo 1 rack A7\n{FOREVER}")

    async def story(watched: Watched) -> None:
        wanted = {"temp": ElimResource(0.2), "rack": ElimResource(60.0, is_string=True)}
        await watched.runner.reconfigure(wanted)
        begin = "elim.a: has said nothing since it was started for more than 0.4 s"
        await watched.until(lambda runner: any(sentence(note).startswith(begin) for note in runner.notes()))
        await watched.until(lambda runner: len(runner.notes()) == 1 and runner.values())
        while "; its last report is incomplete: '2 temp 5'" not in sentence(watched.runner.notes()[0]):
            await asyncio.sleep(0.01)  # what has been begun is no news

    with_runner(tmp_path / "server", story)


def test_an_elim_that_says_nothing_is_started_again_where_that_is_wanted(tmp_path: Path, elim: Make) -> None:
    """LSF_ELIM_BLOCKTIME and LSF_ELIM_RESTARTS."""
    starts = tmp_path / "starts"
    elim("elim.a", f'echo x >> {starts}\nprintf "1 temp %s\\n1 te" $(wc -l < {starts})\n{FOREVER}')
    clock = ManualClock()

    async def story(watched: Watched) -> None:
        for turn in (1.0, 2.0, 3.0):
            await watched.until(lambda runner, turn=turn: runner.values() == {"temp": turn})
            clock.advance(0.2)
        last = "elim.a: has completed no report for 0.2 s, only '1 te' (LSF_ELIM_BLOCKTIME); not started again before "
        seen = await watched.until(lambda runner: any(sentence(note).startswith(last) for note in runner.notes()))
        assert tuple(map(sentence, seen.notes)) == (last + "a reconfig (LSF_ELIM_RESTARTS is 2)",)
        assert seen.values == {"temp": 3.0}, "what it said last holds as long as any value"
        await watched.runner.reconfigure(WANTED)
        await watched.until(lambda runner: runner.values() == {"temp": 4.0})

    with_runner(tmp_path / "server", story, rules=ElimRules(restart_s=0.01, block_s=0.2, restarts=2), clock=clock)
    assert starts.read_text() == "x\n" * 4


def test_an_elim_that_goes_on_speaking_is_left_in_peace(tmp_path: Path, elim: Make) -> None:
    """LSF_ELIM_DEBUG: a report that is begun must be completed; nobody need begin one."""
    starts = tmp_path / "starts"
    elim("elim.a", f"echo x >> {starts}\necho 1 temp 5\n{FOREVER}")
    elim("elim.b", f"printf '1 rack'\n{FOREVER}")

    async def story(watched: Watched) -> None:
        seen = await watched.until(lambda runner: runner.notes() and runner.values())
        assert sentence(seen.notes[0]).startswith(
            "elim.b: has completed no report for 0.1 s, only '1 rack' (LSF_ELIM_DEBUG)"
        )
        assert starts.read_text() == "x\n"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elim_program, "DEBUG_BLOCK_S", 0.1)
        with_runner(tmp_path / "server", story, rules=ElimRules(restart_s=60.0, debug=True))


def test_elim_that_is_not_meant_for_this_host_is_not_started_again(tmp_path: Path, elim: Make) -> None:
    starts = tmp_path / "starts"
    elim("elim.a", f"echo x >> {starts}; exit $ELIM_ABORT_VALUE\n")
    elim("elim.b", f"while [ ! -s {starts} ]; do sleep 0.05; done; sleep 0.5; echo 1 temp 1; {FOREVER}")

    async def story(watched: Watched) -> None:
        await watched.until(lambda runner: runner.values())
        assert watched.runner.notes() == ()
        await watched.runner.reconfigure(WANTED)
        assert starts.read_text() == "x\n"

    with_runner(tmp_path / "server", story, rules=ElimRules(restart_s=0.01))


def test_silence_makes_values_unknown_and_is_told(tmp_path: Path, elim: Make) -> None:
    elim("elim.a", f"echo 2 temp 1 rack A7\n{FOREVER}")

    async def story(watched: Watched) -> None:
        quick = {"temp": ElimResource(0.1), "rack": ElimResource(60.0, is_string=True)}
        await watched.runner.reconfigure(quick)
        await watched.until(lambda runner: "temp" in runner.values())
        seen = await watched.until(lambda runner: "temp" not in runner.values())
        assert seen.values == {"rack": "A7"}

    with_runner(tmp_path / "server", story)


def test_silence_is_measured_by_the_given_clock(tmp_path: Path, elim: Make) -> None:
    elim("elim.a", f"echo 1 temp 1\n{FOREVER}")
    clock = ManualClock()

    async def story(watched: Watched) -> None:
        await watched.until(lambda runner: runner.values())
        clock.advance(119.0)
        assert watched.runner.values() == {"temp": 1.0}
        clock.advance(1.0)
        assert watched.runner.values() == {}

    with_runner(tmp_path / "server", story, clock=clock)


def test_program_that_cannot_run_is_noted(tmp_path: Path, elim: Make) -> None:
    elim("elim.a", "", first_line="#!/no/such/interpreter\n")

    async def story(watched: Watched) -> None:
        await watched.until(lambda runner: runner.notes())
        assert tuple(map(sentence, watched.runner.notes())) == (
            "elim.a: cannot be started: No such file or directory; started again in 60 s",
        )

    with_runner(tmp_path / "server", story, rules=ElimRules(restart_s=60.0))


def test_script_without_interpreter_is_run_by_sh(tmp_path: Path, elim: Make) -> None:
    elim("elim.a", f"echo 1 temp 7\n{FOREVER}", first_line="")

    async def story(watched: Watched) -> None:
        await watched.until(lambda runner: runner.values() == {"temp": 7.0})

    with_runner(tmp_path / "server", story)


def test_elim_that_writes_without_end_is_slowed_down(
    tmp_path: Path, elim: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    elim("elim.a", "exec yes 1 temp 1\n")
    rests: list[float] = []
    pieces: list[int] = [0]
    """Between one rest and the next. A slow machine can only make rests longer."""
    enough = asyncio.Event()
    last_end = 0.0
    go_on = elim_program._resume

    class Counted(ElimParser):
        def feed(self, data: bytes) -> list[Report]:
            nonlocal last_end
            assert len(data) <= 256 * 1024
            pieces[-1] += 1
            if len(rests) >= 4 or pieces[-1] > 200:
                enough.set()
            reports = super().feed(data)
            last_end = time.monotonic()
            return reports

    def resume(pipe: asyncio.ReadTransport) -> None:
        rests.append(time.monotonic() - last_end)
        pieces.append(0)
        go_on(pipe)

    monkeypatch.setattr(elim_program, "ElimParser", Counted)
    monkeypatch.setattr(elim_program, "_resume", resume)

    async def story(_: Watched) -> None:
        await enough.wait()

    with_runner(tmp_path / "server", story)
    # 64 KiB at a time, 20 times a second: far from the whole processor it would take unchecked.
    assert len(rests) >= 4 and min(rests) > 0.9 * READ_PAUSE_S
    assert pieces[0] >= 1, "what came before the pipes were connected is told together"
    assert max(pieces[1:]) == 1


def test_pieces_that_are_told_together_are_followed_by_one_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elim_program, "READ_PAUSE_S", 0.01)

    class Pipe(asyncio.ReadTransport):
        resumed = 0

        def is_closing(self) -> bool:
            return False

        def pause_reading(self) -> None:
            pass

        def resume_reading(self) -> None:
            self.resumed += 1

    class Program(asyncio.SubprocessTransport):
        pipe = Pipe()

        def get_pipe_transport(self, fd: int) -> Pipe:
            return self.pipe

    async def story() -> int:
        run, program = elim_program._Run(lambda reports: None, ManualClock()), Program()
        run.connection_made(program)
        for _ in range(3):
            run.pipe_data_received(1, b"1 temp 1\n")
        while not program.pipe.resumed:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        return program.pipe.resumed

    assert run_async(story()) == 1


def test_reconfigure_leaves_running_elims_alone_unless_something_changed(tmp_path: Path, elim: Make) -> None:
    path = elim("elim.a", f"echo 1 temp $$\n{FOREVER}")

    async def story(watched: Watched) -> None:
        runner = watched.runner
        await watched.until(lambda _: runner.values())
        first = runner.values()
        await runner.reconfigure(dict(WANTED))
        assert runner.values() == first
        path.unlink()
        elim("elim.a", f"echo 1 temp 0\n# another program\n{FOREVER}")
        await runner.reconfigure(WANTED)
        await watched.until(lambda _: runner.values() == {"temp": 0.0})
        path.unlink()
        await runner.reconfigure(WANTED)
        assert runner.values() == {}
        assert runner.notes() == ()

    with_runner(tmp_path / "server", story)


def test_elims_are_started_with_arguments(tmp_path: Path, elim: Make) -> None:
    report = 'printf "1 rack %s\\n" "$#:$1:$2"\n'
    elim("elim.a", report + FOREVER)
    rules = ElimRules(restart_s=0.1)

    async def story(watched: Watched) -> None:
        runner = watched.runner
        for arguments, told in [((), "0::"), (("-v", "a"), "2:-v:a"), (("*",), "1:*:")]:
            await runner.reconfigure(WANTED, rules=rules._replace(arguments=arguments))
            await watched.until(lambda _, told=told: runner.values() == {"rack": told})
        # gsched's own takes none.
        elim("elim.gpu", f"echo 1 temp $#\n{FOREVER}")
        await runner.reconfigure(WANTED, rules=rules._replace(arguments=("one", "two")))
        await watched.until(lambda _: runner.values() == {"rack": "2:one:two", "temp": 0.0})

    with_runner(tmp_path / "server", story)


def test_without_a_wanted_resource_no_elim_runs(tmp_path: Path, elim: Make) -> None:
    elim("elim.a", f"echo 1 temp $$\n{FOREVER}")

    async def story(watched: Watched) -> None:
        runner = watched.runner
        await watched.until(lambda _: runner.values())
        pid = int(runner.values()["temp"])
        await runner.reconfigure({})
        assert runner.values() == {}
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    with_runner(tmp_path / "server", story)


def test_close_ends_what_an_elim_has_started_even_if_it_ignores_sigterm(
    tmp_path: Path, elim: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsched.probe.elims.elim_program.TERM_GRACE_S", 0.2)
    elim("elim.a", "trap : TERM\nsleep 600 &\necho 1 temp $!\nwhile :; do wait; done\n")
    seen: list[int] = []

    async def story(watched: Watched) -> None:
        await watched.until(lambda runner: runner.values())
        seen.append(os.pidfd_open(int(watched.runner.values()["temp"])))

    with_runner(tmp_path / "server", story)
    assert _ended(seen[0])
    os.close(seen[0])


def test_child_that_keeps_the_pipe_open_does_not_hide_the_end(tmp_path: Path, elim: Make) -> None:
    elim("elim.a", "sleep 600 &\necho 1 temp $!\nexit 1\n")

    async def story(watched: Watched) -> None:
        await watched.until(lambda runner: runner.notes())
        assert "ended with exit code 1" in sentence(watched.runner.notes()[0])

    with_runner(tmp_path / "server", story, rules=ElimRules(restart_s=60.0))


def test_elims_do_not_outlive_an_agent_that_is_killed(tmp_path: Path, elim: Make) -> None:
    elim("elim.a", f"echo 1 temp $$\n{FOREVER}")
    code = (
        "import asyncio, sys\n"
        "from gsched.probe.elims.elim import ElimResource, ElimRunner\n"
        "async def main():\n"
        "    changed = asyncio.Event()\n"
        "    runner = ElimRunner(sys.argv[1], on_change=changed.set)\n"
        "    await runner.reconfigure({'temp': ElimResource()})\n"
        "    await changed.wait()\n"
        "    print(int(runner.values()['temp']), flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "server")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdout is not None
        program = os.pidfd_open(int(agent.stdout.readline()))
        agent.kill()
    assert _ended(program)
    os.close(program)


def _ended(pidfd: int) -> bool:
    waiting = select.poll()
    waiting.register(pidfd, select.POLLIN)
    return bool(waiting.poll(60_000))
