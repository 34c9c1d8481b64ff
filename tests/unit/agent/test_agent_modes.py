"""Compute modes for jobs: set before, set back after, whatever happens in between."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.agent.gpu.gpu_owners import GpuOwners
from gsched.agent.gpu.gpu_watch import GpuWatch
from gsched.agent.gpu_modes.compute_mode_records import ModeRecords
from gsched.agent.gpu_modes.compute_modes import ComputeModes
from gsched.base.coded_text import sentence
from gsched.base.errors import Conflict, GschedError, PermissionDenied, ResourceExhausted
from gsched.model.hosts.host import ComputeMode, Gpu, GpuProcess, GpuReport
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import ALONE_CLAIM, PROCESS_CLAIM, SHARED_CLAIM, HeldGpu, HostAllocation
from gsched.model.ledgers.devices import MODE_OF_CLAIM
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.probe.simulated.inventory import change, read_inventory, simulated_gpu, write_inventory
from tests.support.manual_clock import ManualClock
from tests.support.property_examples import examples

DEFAULT, PROCESS = ComputeMode.DEFAULT, ComputeMode.EXCLUSIVE_PROCESS
PROHIBITED, THREAD = ComputeMode.PROHIBITED, ComputeMode.EXCLUSIVE_THREAD
SPEC = JobSpec(command="true", user="ann", queue="normal")
FIRST, SECOND = (1, 1), (2, 1)


class Host:
    """A simulated host and an agent's keeper of its modes."""

    def __init__(self, folder: Path, *modes: ComputeMode, gpu_mode: str = "") -> None:
        self.folder = folder
        self.path = folder / "h.json"
        self.gpu_mode = gpu_mode
        if modes:
            write_inventory(self.path, [simulated_gpu("h", index, mode) for index, mode in enumerate(modes)])
        self.owners: dict[int, str] = {}
        self.clock = ManualClock()
        self.reports: list[GpuReport] = []
        self.book = ModeRecords(folder / "modes.json", "this boot")
        self.watch = GpuWatch(
            "h",
            "c",
            GpuOwners(lambda pids: {pid: self.owners[pid] for pid in pids if pid in self.owners}),
            on_look=self.reports.append,
        )
        self.modes = ComputeModes(self.watch, self.book, self.clock)
        self.watch.judges.append(self.modes.judge)
        self.watch.may_be_set = self.modes.may_be_set

    async def begin(self) -> Host:
        await self.watch.use(f"sim:{self.folder}", self.gpu_mode)
        await self.watch.look()
        return self

    async def crash(self, parts: dict[AttemptKey, HostAllocation], gpu_mode: str = "") -> Host:
        """Another agent takes over; these attempts run."""
        self.modes.close()
        other = Host(self.folder, gpu_mode=gpu_mode)
        other.modes.recover(parts, set(parts))
        return await other.begin()

    async def tidied(self) -> None:
        """Until what is due is set back."""
        await self.modes.settled()

    def admin(self, mode: ComputeMode, index: int = 0) -> None:
        change(self.path, "h", [index], {"compute_mode": mode.value})

    def on_gpu(self, *pids: int, index: int = 0) -> None:
        """Processes come, and others go."""
        gpus = list(read_inventory(self.path, "h"))
        listed = tuple(GpuProcess(pid=pid, used_mib=10) for pid in pids)
        gpus[index] = msgspec.structs.replace(gpus[index], processes=listed, process_count=len(pids))
        write_inventory(self.path, gpus)

    def mode(self, index: int = 0) -> ComputeMode | None:
        return read_inventory(self.path, "h")[index].mode

    def seen(self, index: int = 0) -> Gpu:
        return self.reports[-1].gpus[index]

    async def before(self, key: AttemptKey, held: HostAllocation) -> None:
        await self.modes.before(key, held, SPEC)

    async def after(self, key: AttemptKey, held: HostAllocation) -> None:
        await self.modes.after(key, held)

    def noted(self) -> dict[str, tuple[ComputeMode, ComputeMode]]:
        """What is on disk: GPU -> (mode to go back to, mode of its jobs)."""
        found = ModeRecords(self.folder / "modes.json", "this boot").gpus
        return {uuid: (each.standing, each.given) for uuid, each in found.items()}


def part(claim: str, *indexes: int) -> HostAllocation:
    gpus = tuple(HeldGpu(uuid=simulated_gpu("h", index).uuid, index=index, claim=claim) for index in indexes or (0,))
    return HostAllocation(host="h", slots=1, gpus=gpus)


def play(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(story(), 60)

    asyncio.run(bounded())


@pytest.mark.parametrize(
    ("standing", "claim", "given"),
    [(DEFAULT, PROCESS_CLAIM, PROCESS), (PROCESS, SHARED_CLAIM, DEFAULT), (PROCESS, ALONE_CLAIM, DEFAULT)],
)
def test_the_mode_is_set_before_a_job_and_set_back_after_it(
    tmp_path: Path, standing: ComputeMode, claim: str, given: ComputeMode
) -> None:
    """pains 29: the mode is the job's, and then again the administrator's."""

    async def story() -> None:
        host = await Host(tmp_path, standing, standing).begin()
        assert host.reports[-1].sets_modes and host.seen().mode_settable
        await host.before(FIRST, part(claim))
        assert (host.mode(0), host.mode(1)) == (given, standing)
        assert (host.seen().mode, host.seen().standing_mode) == (given, standing), "told before the job starts"
        assert host.noted() == {part(claim).gpus[0].uuid: (standing, given)}
        await host.after(FIRST, part(claim))
        assert host.mode() is standing
        assert (host.seen().mode, host.seen().standing_mode, sentence(host.seen().problem)) == (standing, None, "")
        assert host.noted() == {}
        await host.after(FIRST, part(claim))  # it may be called again

    play(story)


def test_what_is_set_back_is_on_disk_before_the_mode_is_changed(tmp_path: Path) -> None:
    async def story() -> None:
        host = await Host(tmp_path, DEFAULT).begin()
        set_mode, noted = host.watch.set_mode, []

        async def spied(indexes: list[int], mode: ComputeMode) -> None:
            noted.append((host.mode(), list(host.noted().values())))
            await set_mode(indexes, mode)

        host.watch.set_mode = spied  # type: ignore[assignment,method-assign]
        await host.before(FIRST, part(PROCESS_CLAIM))
        assert noted == [(DEFAULT, [(DEFAULT, PROCESS)])]
        (tmp_path / "modes.json.new").mkdir()  # nothing can be written any more
        with pytest.raises(IsADirectoryError):
            host.book.store()
        await host.after(FIRST, part(PROCESS_CLAIM))
        assert host.mode() is DEFAULT
        with pytest.raises(ResourceExhausted, match="cannot be written"):
            await host.before(SECOND, part(PROCESS_CLAIM))
        assert host.mode() is DEFAULT

    play(story)


def test_of_several_jobs_on_one_gpu_the_first_sets_and_the_last_sets_back(tmp_path: Path) -> None:
    async def story() -> None:
        host = await Host(tmp_path, PROCESS).begin()
        for key in (FIRST, SECOND):
            await host.before(key, part(SHARED_CLAIM))
            assert host.mode() is DEFAULT
            host.on_gpu(4711)  # the second comes while the first computes
        host.on_gpu()
        await host.after(FIRST, part(SHARED_CLAIM))
        assert host.mode() is DEFAULT
        await host.after(SECOND, part(SHARED_CLAIM))
        assert host.mode() is PROCESS

    play(story)


@pytest.mark.parametrize("mode", [PROHIBITED, THREAD])
def test_a_mode_that_is_an_administrators_is_never_changed(tmp_path: Path, mode: ComputeMode) -> None:
    async def story() -> None:
        host = await Host(tmp_path, DEFAULT).begin()
        host.admin(mode)  # after the job was sent
        await host.watch.look()
        assert not host.seen().mode_settable
        for claim in (PROCESS_CLAIM, SHARED_CLAIM):
            with pytest.raises(ResourceExhausted, match=f"is in compute mode {mode}.*administrator"):
                await host.before(FIRST, part(claim))
            await host.after(FIRST, part(claim))
        assert host.mode() is mode and host.noted() == {}

    play(story)


def test_no_mode_is_changed_below_a_process(tmp_path: Path) -> None:
    async def story() -> None:
        host = await Host(tmp_path, DEFAULT).begin()
        host.on_gpu(4711)  # since the last look
        assert host.seen().mode_settable
        with pytest.raises(ResourceExhausted, match="pid 4711 on it"):
            await host.before(FIRST, part(PROCESS_CLAIM))
        await host.after(FIRST, part(PROCESS_CLAIM))
        assert host.mode() is DEFAULT and not host.seen().mode_settable
        await host.before(FIRST, part(SHARED_CLAIM))  # the mode that it is in is none to be changed
        await host.after(FIRST, part(SHARED_CLAIM))

    play(story)


def test_a_gpu_is_not_made_exclusive_again_below_what_is_left_on_it(tmp_path: Path) -> None:
    async def story() -> None:
        host = await Host(tmp_path, PROCESS).begin()
        await host.before(FIRST, part(SHARED_CLAIM))
        host.on_gpu(4711)
        await host.after(FIRST, part(SHARED_CLAIM))
        assert host.mode() is DEFAULT
        await host.watch.look()
        await host.tidied()
        assert "default is to be set back to exclusive_process: pid 4711 on it" in sentence(host.seen().problem)
        assert host.seen().counted_mode is PROCESS
        with pytest.raises(ResourceExhausted, match="not set back yet"):
            await host.before(SECOND, part("ngpus_excl_p"))
        host.on_gpu()
        await host.watch.look()
        await host.tidied()
        assert host.mode() is PROCESS and sentence(host.seen().problem) == "" and host.noted() == {}

    play(story)


def test_a_gpu_that_another_cluster_has_is_left_alone(tmp_path: Path) -> None:
    async def story() -> None:
        host = await Host(tmp_path, DEFAULT).begin()
        await host.before(FIRST, part(PROCESS_CLAIM))
        host.watch.why_locked = lambda uuid: "another cluster has it"  # type: ignore[method-assign]
        await host.after(FIRST, part(PROCESS_CLAIM))
        assert host.mode() is PROCESS, "it is under the other's job by now"
        with pytest.raises(ResourceExhausted, match="another cluster has it"):
            await host.before(SECOND, part(SHARED_CLAIM))
        await host.after(SECOND, part(SHARED_CLAIM))
        host.watch.why_locked = lambda uuid: ""  # type: ignore[method-assign]
        await host.watch.look()
        await host.tidied()
        assert host.mode() is DEFAULT

    play(story)


def test_an_agent_that_died_between_setting_and_starting_has_it_set_back(tmp_path: Path) -> None:
    async def story() -> None:
        host = await Host(tmp_path, DEFAULT, DEFAULT).begin()
        await host.before(FIRST, part(PROCESS_CLAIM, 0, 1))
        assert (host.mode(0), host.mode(1)) == (PROCESS, PROCESS)
        other = await host.crash({})
        assert "is to be set back" in sentence(other.reports[0].gpus[0].problem), "nobody gets it meanwhile"
        await other.tidied()
        assert (other.mode(0), other.mode(1)) == (DEFAULT, DEFAULT)
        assert sentence(other.seen().problem) == "" and other.noted() == {}

    play(story)


def test_an_agent_that_died_during_the_job_sets_back_when_it_ends(tmp_path: Path) -> None:
    async def story() -> None:
        host = await Host(tmp_path, DEFAULT).begin()
        await host.before(FIRST, part(PROCESS_CLAIM))
        other = await host.crash({FIRST: part(PROCESS_CLAIM)})
        await other.tidied()
        assert other.mode() is PROCESS
        assert (other.seen().standing_mode, sentence(other.seen().problem)) == (DEFAULT, "")
        await other.after(FIRST, part(PROCESS_CLAIM))
        assert other.mode() is DEFAULT

    play(story)


def test_after_a_reboot_there_is_nothing_to_set_back(tmp_path: Path) -> None:
    async def story() -> None:
        host = await Host(tmp_path, DEFAULT).begin()
        await host.before(FIRST, part(PROCESS_CLAIM))
        assert ModeRecords(tmp_path / "modes.json", "another boot").gpus == {}
        assert ModeRecords(tmp_path / "modes.json", "this boot").gpus != {}
        assert (tmp_path / "modes.json").stat().st_mode & 0o077 == 0, "an agent sets what stands there"

    play(story)


def test_a_file_that_holds_no_records_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "modes.json").write_text("{")
    assert ModeRecords(tmp_path / "modes.json", "b").gpus == {}
    assert f"{tmp_path}/modes.json cannot be read" in caplog.text


@pytest.mark.parametrize("claim", [SHARED_CLAIM, PROCESS_CLAIM, "ngpus", "ngpus_excl_p"])
def test_a_mode_that_somebody_changes_under_a_job_is_told_and_stays(tmp_path: Path, claim: str) -> None:
    async def story() -> None:
        host = await Host(tmp_path, PROCESS).begin()
        await host.before(FIRST, part(claim))
        given = host.mode()
        await host.watch.look()
        assert host.seen().mode_given is None
        host.admin(PROHIBITED)
        for _ in range(2):
            await host.watch.look()
            assert (host.seen().mode, host.seen().mode_given) == (PROHIBITED, given)
            assert host.seen().counted_mode is PROHIBITED and not host.seen().mode_settable
        await host.after(FIRST, part(claim))
        assert host.mode() is PROHIBITED
        await host.watch.look()
        await host.tidied()
        assert host.seen().mode_given is None and host.noted() == {}

    play(story)


def test_a_change_that_nobody_has_seen_before_the_end_stays_too(tmp_path: Path) -> None:
    async def story() -> None:
        host = await Host(tmp_path, PROCESS).begin()
        await host.before(FIRST, part(SHARED_CLAIM))
        host.admin(PROHIBITED)
        await host.after(FIRST, part(SHARED_CLAIM))
        assert host.mode() is PROHIBITED and host.noted() == {}

    play(story)


def test_a_restarted_agent_knows_in_which_mode_its_jobs_got_their_gpus(tmp_path: Path) -> None:
    async def story() -> None:
        host = await Host(tmp_path, DEFAULT).begin()
        await host.before(FIRST, part(SHARED_CLAIM))
        host.admin(PROCESS)  # while no agent looks
        other = await host.crash({FIRST: part(SHARED_CLAIM)})
        assert other.seen().mode_given is DEFAULT
        await other.after(FIRST, part(SHARED_CLAIM))
        assert other.mode() is PROCESS

    play(story)


def test_gpu_mode_waits_for_the_jobs(tmp_path: Path) -> None:
    async def story() -> None:
        host = await Host(tmp_path, DEFAULT, DEFAULT, DEFAULT).begin()
        parts = {FIRST: part(PROCESS_CLAIM, 0), SECOND: part(SHARED_CLAIM, 1)}
        for key, held in parts.items():
            await host.before(key, held)
        other = await host.crash(parts, gpu_mode="exclusive_process")
        assert [other.mode(index) for index in range(3)] == [PROCESS, DEFAULT, PROCESS]
        assert [gpu.counted_mode for gpu in other.reports[-1].gpus] == [PROCESS] * 3
        assert all(gpu.mode_given is None for gpu in other.reports[-1].gpus)
        for key, held in parts.items():
            await other.after(key, held)
        assert [other.mode(index) for index in range(3)] == [PROCESS] * 3
        assert other.noted() == {}

    play(story)


@pytest.mark.parametrize("error", [Conflict("the driver does not support it"), PermissionDenied("not allowed")])
def test_where_a_mode_cannot_be_set_the_job_goes_back_and_the_gpu_is_no_longer_offered_for_it(
    tmp_path: Path, error: GschedError
) -> None:
    async def story() -> None:
        host = await Host(tmp_path, DEFAULT).begin()

        async def fails(indexes: list[int], mode: ComputeMode) -> None:
            if isinstance(error, PermissionDenied):  # a probe remembers that
                host.watch._probe.why_no_modes = lambda: "not allowed"  # type: ignore[union-attr,method-assign]
            raise error

        host.watch.set_mode = fails  # type: ignore[assignment,method-assign]
        with pytest.raises(ResourceExhausted, match=error.text):
            await host.before(FIRST, part(PROCESS_CLAIM))
        await host.after(FIRST, part(PROCESS_CLAIM))
        await host.watch.look()
        assert not host.seen().mode_settable and sentence(host.seen().problem) == "" and host.noted() == {}
        is_known = isinstance(error, PermissionDenied)
        assert host.reports[-1].sets_modes is not is_known
        assert host.reports[-1].modes_note == ("not allowed" if is_known else "")
        host.clock.advance(601)
        await host.watch.look()
        assert host.seen().mode_settable is not is_known

    play(story)


class Watched:
    """A host with one GPU, and what must hold whenever its mode is set; `will`: the administrator's mode."""

    def __init__(self, folder: Path, mode: ComputeMode) -> None:
        self.host = Host(folder, mode)
        self.will = mode
        self.running: dict[AttemptKey, HostAllocation] = {}
        self.faults: list[str] = []
        self._attend()

    def _attend(self) -> None:
        set_mode = self.host.watch.set_mode

        async def attended(indexes: list[int], mode: ComputeMode) -> None:
            (gpu,) = read_inventory(self.host.path, "h")
            if gpu.mode not in (DEFAULT, PROCESS):
                self.faults.append("an administrator's mode is changed")
            if mode is PROCESS and gpu.processes:
                self.faults.append("made exclusive below a process")
            if self.running:
                self.faults.append("changed below a job")
            await set_mode(indexes, mode)

        self.host.watch.set_mode = attended  # type: ignore[assignment,method-assign]

    async def start(self, key: AttemptKey, claim: str) -> None:
        """As the ledger would have it: one job alone, or several that share."""
        others = [held.claim for each in self.running.values() for held in each.gpus]
        if key in self.running or (others and {claim, *others} != {SHARED_CLAIM}):
            return
        try:
            await self.host.before(key, part(claim))
        except ResourceExhausted:
            await self.host.after(key, part(claim))
            return
        self.running[key] = part(claim)
        if claim in MODE_OF_CLAIM and claim.startswith("gpu_"):
            assert self.host.mode() is MODE_OF_CLAIM[claim], "a job starts in another mode than its own"

    async def end(self, key: AttemptKey) -> None:
        if key in self.running:
            await self.host.after(key, self.running.pop(key))

    async def admin(self, mode: ComputeMode) -> None:
        await self.host.tidied()  # not between an agent's look and its deed: the driver knows no such order
        if self.host.mode() is not mode:
            self.will = mode
            self.host.admin(mode)
        await self.host.watch.look()
        await self.host.tidied()

    async def process(self, pids: tuple[int, ...]) -> None:
        await self.host.tidied()  # who comes between an agent's look and its deed cannot be seen by anybody
        self.host.on_gpu(*pids)

    async def crash(self, key: AttemptKey) -> None:
        """The agent is killed, perhaps before that attempt has started."""
        self.running.pop(key, None)
        self.host = await self.host.crash(self.running)
        self._attend()

    async def settle(self) -> None:
        """Everything ends and goes."""
        for key in list(self.running):
            await self.end(key)
        self.host.on_gpu()
        for _ in range(2):
            await self.host.watch.look()
            await self.host.tidied()
        assert self.faults == []
        assert self.host.mode() is self.will
        assert self.host.noted() == {} and sentence(self.host.seen().problem) == ""


_keys = st.sampled_from([FIRST, SECOND])
_claims = st.sampled_from([SHARED_CLAIM, SHARED_CLAIM, ALONE_CLAIM, PROCESS_CLAIM, PROCESS_CLAIM, "ngpus"])
_starts = st.tuples(st.just("start"), _keys, _claims)
_ends = st.tuples(st.just("end"), _keys)
_deeds = st.one_of(
    *(_starts, _starts, _ends, _ends),
    st.tuples(st.just("admin"), st.sampled_from([DEFAULT, PROCESS, PROHIBITED])),
    st.tuples(st.just("process"), st.sampled_from([(), (4711,), (4711,)])),
    st.tuples(st.just("crash"), _keys),
)


@settings(max_examples=examples(30), deadline=None)
@given(mode=st.sampled_from([DEFAULT, PROCESS]), deeds=st.lists(_deeds, min_size=4, max_size=20))
def test_whatever_happens_the_administrators_modes_come_back(mode: ComputeMode, deeds: list[tuple[Any, ...]]) -> None:
    async def story() -> None:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            watched = Watched(Path(folder), mode)
            await watched.host.begin()
            for deed, *words in deeds:
                await getattr(watched, deed)(*words)
            await watched.settle()

    play(story)


class Counting:
    """What is asked of a host's probe, and how many looks there are."""

    def __init__(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sets: list[tuple[list[int], ComputeMode]] = []
        self.host = host
        self.looks = len(host.reports)
        put = host.watch.set_mode

        async def noted(indexes: Any, mode: ComputeMode) -> None:
            self.sets.append((sorted(indexes), mode))
            await put(indexes, mode)

        monkeypatch.setattr(host.watch, "set_mode", noted)

    def since(self) -> tuple[list[tuple[list[int], ComputeMode]], int]:
        """Modes set and looks, since this was asked last."""
        sets, self.sets = self.sets, []
        looks, self.looks = len(self.host.reports) - self.looks, len(self.host.reports)
        return sets, looks


def test_attempts_that_come_together_are_served_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look, each mode and each note on disk takes as long for one as for all."""

    async def story() -> None:
        host = await Host(tmp_path, *[PROCESS] * 8).begin()
        counting = Counting(host, monkeypatch)
        parts = {(number + 1, 1): part(SHARED_CLAIM, number) for number in range(8)}
        await asyncio.gather(*(host.before(key, held) for key, held in parts.items()))
        assert [host.mode(number) for number in range(8)] == [DEFAULT] * 8
        sets, looks = counting.since()
        assert sets == [([*range(8)], DEFAULT)] and looks <= 2
        await asyncio.gather(*(host.after(key, held) for key, held in parts.items()))
        assert [host.mode(number) for number in range(8)] == [PROCESS] * 8 and not host.noted()
        sets, looks = counting.since()
        assert sets == [([*range(8)], PROCESS)] and looks <= 2

    play(story)


def test_one_whose_gpu_cannot_be_set_does_not_fail_the_others(tmp_path: Path) -> None:
    async def story() -> None:
        host = await Host(tmp_path, PROCESS, PROHIBITED, PROCESS).begin()
        found = await asyncio.gather(
            *(host.before((number + 1, 1), part(SHARED_CLAIM, number)) for number in range(3)), return_exceptions=True
        )
        assert [type(each) for each in found] == [type(None), ResourceExhausted, type(None)]
        assert [host.mode(number) for number in range(3)] == [DEFAULT, PROHIBITED, DEFAULT]

    play(story)


def test_the_driver_refuses_one_of_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        host = await Host(tmp_path, *[PROCESS] * 3).begin()
        put = host.watch.set_mode

        async def refusing(indexes: Any, mode: ComputeMode) -> None:
            if 1 in indexes and mode is DEFAULT:
                raise Conflict("GPU 1 is lost")
            await put(indexes, mode)

        monkeypatch.setattr(host.watch, "set_mode", refusing)
        parts = [part(SHARED_CLAIM, number) for number in range(3)]
        found = await asyncio.gather(
            *(host.before((number + 1, 1), held) for number, held in enumerate(parts)), return_exceptions=True
        )
        assert [str(each) for each in found] == ["None", "GPU 1 is lost", "None"]
        await asyncio.gather(*(host.after((number + 1, 1), held) for number, held in enumerate(parts)))
        assert [host.mode(number) for number in range(3)] == [PROCESS] * 3 and not host.noted()

    play(story)


def test_one_that_is_cancelled_while_others_are_served_keeps_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        host = await Host(tmp_path, *[PROCESS] * 2).begin()
        first = asyncio.ensure_future(host.before(FIRST, part(SHARED_CLAIM, 0)))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(host.before(SECOND, part(SHARED_CLAIM, 1)))
        await asyncio.sleep(0)
        second.cancel()
        await host.after(SECOND, part(SHARED_CLAIM, 1))
        await first
        assert (host.mode(0), host.mode(1)) == (DEFAULT, PROCESS)
        await host.after(FIRST, part(SHARED_CLAIM, 0))
        assert host.mode(0) is PROCESS and not host.noted() and not host.modes._holders

    play(story)
