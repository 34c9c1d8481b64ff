"""What the agent costs: idle, for each running job, for the record of what jobs make of their GPUs, and for a start
with fence and looks at the GPUs or without.

Three clusters at the intervals of a plain configuration (probe 5 s, usage 10 s, load 15 s): one without GPUs and fence,
two with 8 and 64 GPUs behind a stand-in for the driver's library (built with gcc), fenced where this machine can.
Counted are the agent and all that it keeps running: fork server, probe, elim and supervisors, but no job. Processor
time is that of the processes, memory their proportional share (proc(5), smaps_rollup): other work does not enter.
Goals: under 1 % of a core, also with 8 jobs on 8 GPUs; under 1 MB for each running job.
"""

from __future__ import annotations

import contextlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import psutil
from private_cluster import BIN, client_of, private_cluster, report, set_plain, submission

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gsched.app.clusters.daemons import running_pid
from gsched.base.coded_text import has_code, sentence
from gsched.model.config import Timing
from gsched.model.views.view import JobFilter
from gsched.wire.calls.client import Client
from tests.fakenvml.build import NoCompiler, build

JOBS = 50
WINDOW_S = 30.0
"""A multiple of all intervals, so that chance has no part in how often each came round."""
ROUNDS, STARTS = 3, 12
NOT_SUPPORTED = 3
"""NVML's error. The stand-in waits for events by reading a file 50 times a second, where a driver sleeps."""
ONE_GPU = "rusage[ngpus_shared=1]"
ALONE = "num=1:mode=shared:j_exclusive=yes"
GPUS = 8
SETTLED_S = 40.0
"""By then the use of GPUs of a new job is sampled at the usual interval."""
NEVER_S = 86_400


def main() -> int:
    """Print a line for each figure, then all of them; exit code 0."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        try:
            build(Path(folder))
        except NoCompiler as problem:
            print(problem)
            return 0
        costs = {count: stack.enter_context(agent(count, Path(folder))) for count in (0, 8, 64)}
        figures = starts(costs[0], costs[8], Path(folder))
        quiet = spent(costs)
        figures |= idle(costs, quiet)
        figures |= recording(costs[8], Path(folder) / "state8")
        figures |= running(costs[8], quiet[8])
    report("agent", figures)
    return 0


class Agent:
    """One agent and what it keeps running."""

    def __init__(self, environment: Mapping[str, str], client: Client) -> None:
        host = client.hosts()[0]
        pid = running_pid(f"{Path(environment['GSCHED_ENVDIR']).parent}/run", f"agent-{host.name}")
        self.client = client
        self._environment = environment
        self.unfenced = next((sentence(note) for note in host.notes if has_code(note, "remark.not_fenced")), "")
        self.process = psutil.Process(pid)

    def sample_use_every(self, seconds: float) -> None:
        """What jobs make of their GPUs."""
        path, name = Path(self._environment["GSCHED_ENVDIR"]) / "lsf.conf", "GSCHED_GPU_USE_INTERVAL"
        kept = [line for line in path.read_text().splitlines() if not line.startswith(name)]
        path.write_text("\n".join([*kept, f"{name}={seconds:g}", ""]))
        subprocess.run([BIN / "gadmin", "reconfig"], env=self._environment, check=True, capture_output=True)

    def parts(self) -> dict[str, list[psutil.Process]]:
        """Its processes by what they are."""
        children = self.process.children()
        server = next(each for each in children if any("forkserver" in word for word in each.cmdline()))
        return {
            "agent": [self.process],
            "fork server": [server],
            "helpers": [each for child in children if child != server for each in (child, *child.children(True))],
            "supervisors": server.children(),
        }

    def cpu_s(self) -> dict[str, float]:
        """Processor seconds of each part so far; those of the fork server count supervisors that have ended."""
        return {what: sum(map(cpu_s, found)) for what, found in self.parts().items()}

    def pss_kib(self) -> float:
        """Memory of all parts."""
        return sum(memory_kib(each.pid, "Pss") for found in self.parts().values() for each in found)


def cpu_s(process: psutil.Process) -> float:
    """Of a process and its children that have ended; the first to the nanosecond: clock_getcpuclockid(3)."""
    times = process.cpu_times()
    return float(time.clock_gettime((~process.pid << 3) | 2) + times.children_user + times.children_system)


def memory_kib(pid: int, *names: str) -> float:
    """Sum of these lines of smaps_rollup."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(float(size) for name, size in re.findall(r"^(\w+): +(\d+) kB", text, re.MULTILINE) if name in names)


@contextlib.contextmanager
def agent(count: int, folder: Path) -> Iterator[Agent]:
    """The agent of a private cluster with so many GPUs, which runs at the intervals of a plain configuration."""
    state = folder / f"state{count}"
    state.write_text(f"count={count}\nerr.nvmlEventSetCreate={NOT_SUPPORTED}\n")
    env = {"LD_LIBRARY_PATH": str(folder), "GSCHED_FAKE_NVML": str(state)} if count else {}
    with private_cluster(**env) as environment:
        conf = Path(environment["GSCHED_ENVDIR"])
        set_plain(conf)
        if not count:
            with (conf / "lsf.conf").open("a") as file:
                file.write("GSCHED_GPU_FENCE=N\n")
        subprocess.run([BIN / "gadmin", "reconfig"], env=environment, check=True, capture_output=True)
        with client_of(environment) as client:
            before = Agent(environment, client).process  # fence and elim go by what they read at their start
            before.terminate()
            before.wait(30)
            subprocess.run([BIN / "gsched", "up"], env=environment, check=True, capture_output=True)
            yield Agent(environment, client)


def spent(agents: Mapping[int, Agent]) -> dict[int, dict[str, float]]:
    """Percent of a core of each part of each of these agents over one window, all at once."""
    before = {count: each.cpu_s() for count, each in agents.items()}
    time.sleep(WINDOW_S)
    after = {count: each.cpu_s() for count, each in agents.items()}
    return {
        count: {what: (total - before[count][what]) / WINDOW_S * 100 for what, total in parts.items()}
        for count, parts in after.items()
    }


def shown(parts: Mapping[str, float], unit: str) -> str:
    """The parts of a sum, the largest first."""
    return ", ".join(f"{what} {value:.3f} {unit}" for what, value in sorted(parts.items(), key=lambda each: -each[1]))


def idle(agents: Mapping[int, Agent], quiet: Mapping[int, Mapping[str, float]]) -> dict[str, float]:
    """Nothing runs and nothing is asked."""
    figures: dict[str, float] = {}
    for count, parts in quiet.items():
        share, mib = sum(parts.values()), agents[count].pss_kib() / 1024
        print(f"idle, {count} GPUs: {share:.3f} % of a core ({shown(parts, '%')}); {mib:.1f} MiB")
        figures |= {f"idle_percent_{count}": share, f"idle_mib_{count}": mib}
    return figures


def starts(bare: Agent, fenced: Agent, folder: Path) -> dict[str, float]:
    """Jobs one after another, in turns: without fence and GPUs, with the fence, with the fence and a GPU looked at."""
    print(f"fence: {fenced.unfenced or 'on'}")
    kinds = {"bare": (bare, ""), "fenced": (fenced, ""), "gpu": (fenced, ONE_GPU)}
    cpu: dict[str, list[float]] = {kind: [] for kind in kinds}
    begun: dict[str, list[float]] = {kind: [] for kind in kinds}
    for turn in range(ROUNDS + 1):
        for kind, (host, wish) in kinds.items():
            before = sum(host.cpu_s().values())
            found = [start_ms(host.client, wish, folder / "at") for _ in range(STARTS)]
            time.sleep(0.2)  # what follows an end is over
            if turn:
                cpu[kind].append((sum(host.cpu_s().values()) - before) / STARTS * 1000)
                begun[kind] += found
    figures: dict[str, float] = {}
    for kind in kinds:
        used, median = statistics.mean(cpu[kind]), statistics.median(begun[kind])
        print(f"a job, {kind}: {used:.1f} ms of CPU from start to end; submit returned -> job runs {median:.1f} ms")
        figures |= {f"job_cpu_ms_{kind}": used, f"start_ms_{kind}": median}
    return figures


def start_ms(client: Client, wish: str, output: Path) -> float:
    """Milliseconds from the return of submit to the first instruction of the job; returns after its end."""
    job = submit(client, f"date +%s.%N > {output}", wish)
    returned = time.time()
    client.wait([job], timeout_s=30)
    return (float(output.read_text()) - returned) * 1000


def submit(client: Client, command: str, wish: str, gpus: str = "") -> int:
    """A job with this -R and -gpu."""
    plain = submission(command)
    spec = msgspec.structs.replace(plain.spec, res_req=wish, gpu_req=gpus)
    return client.submit(msgspec.structs.replace(plain, spec=spec)).job_id


def recording(host: Agent, state: Path) -> dict[str, float]:
    """Eight jobs, each with a GPU that computes and a process on it; in turns with the record, with the record where
    the GPUs keep accounts of processes, and without.
    """
    jobs = [submit(host.client, "sleep 600", "", ALONE) for _ in range(GPUS)]
    wanted = JobFilter(ids=tuple(jobs))
    deadline = time.monotonic() + 30
    while any(view.pid is None for view in host.client.jobs(wanted)) and time.monotonic() < deadline:
        time.sleep(0.2)
    with state.open("a") as file:
        for view in host.client.jobs(wanted):
            assert view.allocation is not None and view.pid is not None
            index = view.allocation.hosts[0].gpus[0].index
            file.write(f"gpu.{index}.util=90\ngpu.{index}.procs={view.pid}:{1 << 30}\n")
            file.write(f"gpu.{index}.proc_util={view.pid}:90:30\ngpu.{index}.energy_mj=ramp:300000:0\n")
            file.write(f"gpu.{index}.capability=90\ngpu.{index}.accounts={view.pid}:90:30:{1 << 30}:0:{1 << 50}\n")
    figures: dict[str, float] = {}
    turns: dict[str, list[float]] = {"recorded": [], "accounted": [], "unrecorded": []}
    for _ in range(ROUNDS):
        for kind, found in turns.items():
            keep_accounts(state, is_on=kind == "accounted")
            host.sample_use_every(NEVER_S if kind == "unrecorded" else Timing().gpu_use_s)
            time.sleep(SETTLED_S if kind == "recorded" else Timing().gpu_use_s + 1)
            parts = spent({GPUS: host})[GPUS]
            found.append(sum(parts.values()))
            print(f"{GPUS} jobs on {GPUS} GPUs, {kind}: {sum(parts.values()):.3f} % of a core ({shown(parts, '%')})")
    seen = [use for view in host.client.jobs(wanted) for use in (view.usage.gpus if view.usage else ())]
    looks = [use.samples for use in seen]
    assert len(seen) == GPUS and min(looks) > WINDOW_S / Timing().gpu_use_s, f"the use was not recorded: {looks}"
    assert all(each.is_accounted for use in seen for each in use.processes), "no accounts were read"
    for kind, found in turns.items():
        figures[f"{kind}_percent"] = statistics.median(found)
    for kind in ("recorded", "accounted"):
        more = figures[f"{kind}_percent"] - figures["unrecorded_percent"]
        print(f"the record costs {more:.3f} % of a core ({kind})")
    host.sample_use_every(Timing().gpu_use_s)
    host.client.control("kill", jobs)
    host.client.wait(jobs, timeout_s=120)
    return figures


def keep_accounts(state: Path, *, is_on: bool) -> None:
    """Whether the GPUs keep accounts of processes from now on."""
    with state.open("a") as file:
        file.write("".join(f"gpu.{index}.accounting={int(is_on)}\n" for index in range(GPUS)))


def running(host: Agent, quiet: Mapping[str, float]) -> dict[str, float]:
    """What jobs add that do nothing but run, all of them sharing the GPUs."""
    before_kib = host.pss_kib()
    jobs = [submit(host.client, "sleep 600", ONE_GPU) for _ in range(JOBS)]
    deadline = time.monotonic() + 30
    while len(host.parts()["supervisors"]) < JOBS and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(3)  # what comes with the starts is over
    busy = spent({8: host})[8]
    supervisors = host.parts()["supervisors"]
    assert len(supervisors) == len(jobs), f"{len(supervisors)} of {len(jobs)} jobs run"
    kib = (host.pss_kib() - before_kib) / JOBS
    own = statistics.median(memory_kib(each.pid, "Private_Clean", "Private_Dirty") for each in supervisors)
    added = {what: (busy[what] - quiet[what]) / JOBS for what in busy}
    share = sum(added.values())
    print(f"each of {JOBS} running jobs: {share:.4f} % of a core ({shown(added, '%')})")
    print(f"  {kib:.0f} KiB of memory; a supervisor has {own:.0f} KiB for itself alone")
    return {"job_percent": share, "busy_percent": sum(busy.values()), "job_kib": kib, "supervisor_private_kib": own}


if __name__ == "__main__":
    sys.exit(main())
