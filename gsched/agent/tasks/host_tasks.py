"""Tasks on this host: commands that a job starts on its hosts with `glaunch`.

What is asked of them is written into the attempt's folder, where the attempt's supervisor carries it out; nothing is
kept here, so an agent that restarts has nothing to remember, and everything may be asked again. Whether whoever asks
may ask is for the master to say, or for this host's own door for jobs.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from gsched.agent.output import terminal_questions
from gsched.agent.tasks.network_variables import carried_network
from gsched.base.errors import GschedError
from gsched.dialect.slurm.job_variables import STEP_OF_SRUN
from gsched.model.hosts.job_tmpdir import OWN_TMPDIR
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.run import task_files
from gsched.run.attempt_files import HOSTFILE
from gsched.run.executor import ProcessExecutor
from gsched.run.processes.process_tree import MARK_VARIABLE
from gsched.wire.v1 import agent_pb2

START_S = 10.0
"""How long a supervisor has to start a task, until it is asked again."""
LOOK_S = 0.2
SMALL = 4096
"""Bytes of each stream that a question may ask for which waits for output: many of them wait at a time."""
PIECE = 128 * 1024
"""Bytes of each stream that an answer holds at most: a slow line must not be silent for long because of it."""
MOST_WAIT_S = 20.0
MOST_TYPED = 64 * 1024
MOST_ORDER = 2 << 20
"""Bytes of a task's arguments and environment."""
MOST_HOSTFILE = 4 << 20
"""Bytes of it that are read: it is the job's user's."""
MOST_TASKS = 10_000
"""Tasks of one attempt on one host that something is kept of."""

OF_HOST = (
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "GSCHED_GPU_UUIDS", "GSCHED_GPU_SHARE"),
    *("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"),
    *("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "LSB_BIND_CPU_LIST", "LSB_BIND_MEM_LIST", "LSB_BIND_MEM_POLICY"),
    *("LSB_AFFINITY_HOSTFILE", "LSB_DJOB_HOSTFILE", "LSB_DJOB_RANKFILE", "GSCHED_AGENT_SOCKET", "GSCHED_DEADLINE"),
    *("GSCHED_BINDIR", OWN_TMPDIR),
    *("SLURMD_NODENAME", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_CPUS_ON_NODE"),
)
"""Variables that are different on each host of a job."""
OF_GPUS = ("CUDA_VISIBLE_DEVICES", "GSCHED_GPU_UUIDS", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS")
"""Variables that list a job's GPUs on a host, in the same order."""
_OF_JOB = ("LSB_", "LS_", "LSF_", "GSCHED_", "SLURM", "CUDA_", "OMPI_MCA_", "PRTE_MCA_", "HYDRA_", "I_MPI_HYDRA_")
"""How variables begin that a job is told of itself."""


class HostTasks:
    """The tasks of the attempts of `executor`, whose files lie in `folder(key)`."""

    def __init__(
        self,
        host: str,
        executor: ProcessExecutor,
        folder: Callable[[AttemptKey], Path],
        terminate_interval_s: Callable[[], float],
    ) -> None:
        self._host = host
        self._executor = executor
        self._tasking = executor.tasking
        self._folder = folder
        self._interval_s = terminate_interval_s
        self._ends: set[asyncio.Task[None]] = set()

    def prove(self, pid: int, uid: int) -> AttemptKey | None:
        """The attempt that the process belongs to for certain, if the user is its user."""
        return self._tasking.proven(pid, uid)

    def ask_requeue(self, key: AttemptKey) -> str:
        """Note that the attempt's job wants to wait again when it has ended; else why that cannot be."""
        try:
            self._put_back(key)
            order = self._executor.order(*key)
            if order is None:
                return f"nobody knows this job any more on {self._host}"
            if order.is_part:
                first = next(iter(self.slots(key)), "")
                return f"it works on the first host of the job, {first}: this is {self._host}"
            if order.interactive:
                return "an interactive job cannot be run again"
            self._executor.note_wants_requeue(*key)
        except OSError as error:
            return f"{self._host}: {error.strerror or error}"
        except GschedError as error:
            return error.text
        return ""

    def slots(self, key: AttemptKey) -> list[str]:
        """The job's hosts, a name for each slot; none where nobody knows them any more."""
        try:
            self._put_back(key)
            with (self._folder(key) / HOSTFILE).open("rb") as file:
                return file.read(MOST_HOSTFILE).decode("utf8", "replace").split()
        except (OSError, GschedError):
            return []

    def rooms(self, key: AttemptKey) -> dict[str, tuple[int, int]]:
        """Host -> slots and GPUs that the job has there; empty where nobody knows them any more."""
        order = self._executor.order(*key)
        gpus = order.host_gpus if order is not None else {}
        return {host: (count, gpus.get(host, 0)) for host, count in Counter(self.slots(key)).items()}

    def first_step(self, key: AttemptKey) -> int:
        """Number of the first step that srun starts in the job: what srun --pty has submitted is step 0 itself."""
        order = self._executor.order(*key)
        is_step = order is not None and order.interactive == "pty" and STEP_OF_SRUN in order.environment
        return int(is_step)

    def attempt_folder(self, key: AttemptKey) -> Path:
        """Where the attempt's files lie; put back if somebody has removed it. Raises OSError, GschedError."""
        self._put_back(key)
        return self._folder(key)

    def uid(self, key: AttemptKey) -> int:
        """Whom the attempt runs as."""
        order = self._executor.order(*key)
        return order.account.uid if order is not None and order.account is not None else os.getuid()

    def _put_back(self, key: AttemptKey) -> None:
        """Tasks need the attempt's folder: if somebody has removed it, now is the time. Raises OSError, GschedError."""
        if not self._folder(key).is_dir():
            self._executor.put_back_folders()

    async def answer(self, ask: agent_pb2.TaskAsk) -> agent_pb2.TaskReply:
        """Carry it out. Never raises."""
        reply = agent_pb2.TaskReply(request=ask.request)
        key = (ask.job_id, ask.attempt)
        if not ask.task.replace("-", "").isalnum() or len(ask.task) > 64:
            reply.error = f"'{ask.task[:64]}' is no name of a task"
            return reply
        try:
            match ask.WhichOneof("kind"):
                case "start":
                    await self._start(key, ask, reply)
                case "read":
                    await self._read(key, ask.task, ask.read, reply)
                case "type":
                    await self._type(key, ask.task, ask.type, reply)
                case "signal":
                    self._signal(key, ask.task, ask.signal)
                case "release":
                    self._release(key, ask.task)
        except (OSError, GschedError) as error:
            why = error.text if isinstance(error, GschedError) else error.strerror or error
            reply.error = f"{self._host}: {why}"
        return reply

    # -- start ----------------------------------------------------------------------------------------------------

    async def _start(self, key: AttemptKey, ask: agent_pb2.TaskAsk, reply: agent_pb2.TaskReply) -> None:
        folder = str(self._folder(key))
        if not self._tasking.is_possible(key):
            reply.error = f"the job does not run on {self._host}"
            return
        if ask.start.ByteSize() > MOST_ORDER:
            reply.error = f"arguments and environment of a task may have {MOST_ORDER >> 20} MiB"
            return
        self._put_back(key)
        if not os.path.isdir(f"{folder}/{task_files.TASKS}/{ask.task}"):
            if task_files.running(folder) >= task_files.MOST_RUNNING:
                reply.error = f"{task_files.MOST_RUNNING} tasks of the job run on {self._host} already"
                return
            if len(task_files.names(folder)) >= MOST_TASKS:
                reply.error = f"{MOST_TASKS} tasks of the job are not over on {self._host}"
                return
            task_files.write_order(folder, ask.task, self._order(key, ask))
        until = time.monotonic() + START_S
        self._tasking.poke(key)
        while True:
            if task_files.read(folder, ask.task, task_files.STARTED) is not None:
                return
            status = task_files.read(folder, ask.task, task_files.STATUS)
            if status is not None:
                reply.error = str(status.get("problem", ""))
                return
            left = until - time.monotonic()
            if left <= 0 or not self._tasking.is_possible(key):
                reply.error, reply.later = "its supervisor has not started it yet", True
                return
            await self._tasking.news(key, min(left, 1.0))

    def _order(self, key: AttemptKey, ask: agent_pb2.TaskAsk) -> task_files.TaskOrder:
        start = ask.start
        order = self._executor.order(*key)
        here = order.environment if order is not None else {}
        pairs = (_text(each).partition("=") for each in start.environment)
        environment = {name: value for name, equals, value in pairs if equals and name}
        if start.outside:
            environment |= {name: value for name, value in here.items() if name.startswith(_OF_JOB)}
        if start.outside or ask.from_host != self._host:
            environment = on_other_host(environment, here)
        if start.picks_gpus:
            environment |= of_these_gpus(environment, start.gpus)
        environment |= {name: value for name, equals, value in (_text(each).partition("=") for each in start.own)}
        if MARK_VARIABLE in here:
            environment[MARK_VARIABLE] = here[MARK_VARIABLE]
        return task_files.TaskOrder(
            argv=tuple(map(_text, start.argv)),
            environment=environment,
            cwd=_text(start.cwd),
            umask=start.umask & 0o777,
            reads=start.reads,
            pty=start.pty,
        )

    # -- while it runs --------------------------------------------------------------------------------------------

    async def _read(self, key: AttemptKey, name: str, ask: agent_pb2.ReadTask, reply: agent_pb2.TaskReply) -> None:
        wait_s = min(max(ask.wait_s, 0.0), MOST_WAIT_S)
        until = time.monotonic() + wait_s
        answer = await terminal_questions.ask(
            self._folder(key) / task_files.TASKS / name,
            stdout=ask.stdout_from,
            stderr=ask.stderr_from,
            most=min(max(ask.most, 0), PIECE),
            wait_ms=int(wait_s * 1000),
        )
        if answer is not None:
            header, data = answer
            end = header.get("stdout", 0)
            reply.stdout, reply.stderr = data[:end], data[end:]
            if not header.get("over") or data:
                self._tell_use(key, name, reply)
                return
        await self._read_end(key, name, until, reply, is_silent=answer is None)

    async def _read_end(
        self, key: AttemptKey, name: str, until: float, reply: agent_pb2.TaskReply, *, is_silent: bool
    ) -> None:
        """There is no more output: wait for its end."""
        folder = str(self._folder(key))
        while True:
            # Asked before the file is: of a job that is over nothing comes any more.
            runs = self._tasking.is_possible(key)
            status = task_files.read(folder, name, task_files.STATUS)
            if status is not None:
                reply.over, reply.status = True, int(status.get("status", 0))
                reply.cpu_s = float(status.get("cpu_s", 0.0))
                if status.get("max_rss_kib") is not None:
                    reply.max_rss_kib = int(status["max_rss_kib"])
                reply.error = str(status.get("problem", ""))
                return
            if not runs:
                reply.error = f"the job is over on {self._host}, or its supervisor was killed"
                return
            if is_silent and task_files.read(folder, name, task_files.STARTED) is None:
                reply.error = f"no such task on {self._host}"
                return
            left = until - time.monotonic()
            if left <= 0:
                if is_silent:
                    reply.error, reply.later = "its output cannot be had", True
                else:
                    self._tell_use(key, name, reply)
                return
            await self._tasking.news(key, min(left, LOOK_S) if is_silent else left)

    def _tell_use(self, key: AttemptKey, name: str, reply: agent_pb2.TaskReply) -> None:
        """What a task that runs has used, as far as that is known."""
        started = task_files.read(str(self._folder(key)), name, task_files.STARTED)
        use = self._tasking.session_use(key, int(started["pid"])) if started is not None else None
        if use is not None:
            reply.cpu_s, reply.max_rss_kib = use.cpu_s, use.max_rss_kib

    async def _type(self, key: AttemptKey, name: str, ask: agent_pb2.TypeTask, reply: agent_pb2.TaskReply) -> None:
        figures = {"from": ask.first, "end": int(ask.end), "wait_ms": 5000, "rows": ask.rows, "columns": ask.columns}
        data = ask.data[:MOST_TYPED]
        answer = await terminal_questions.ask(self._folder(key) / task_files.TASKS / name, data, **figures)
        if answer is not None:
            reply.taken = answer[0].get("taken", 0)
        elif task_files.read(str(self._folder(key)), name, task_files.STATUS) is None and self._tasking.is_possible(
            key
        ):
            reply.error, reply.later = "its input cannot be written", True
        else:
            reply.taken = ask.first + len(data)  # nobody reads it any more

    def _signal(self, key: AttemptKey, name: str, ask: agent_pb2.SignalTask) -> None:
        if not 0 < ask.signal < 65 or not os.path.isdir(f"{self._folder(key)}/{task_files.TASKS}/{name}"):
            return
        if ask.ends:
            folder = f"{self._folder(key)}/{task_files.TASKS}/{name}"
            os.close(os.open(f"{folder}/{task_files.UNWANTED}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._send(key, name, ask.signal)
        if ask.ends:
            end = asyncio.get_running_loop().create_task(self._kill(key, name))
            self._ends.add(end)
            end.add_done_callback(self._ends.discard)

    async def _kill(self, key: AttemptKey, name: str) -> None:
        await asyncio.sleep(self._interval_s())
        self._send(key, name, 9)
        await self._tasking.news(key, 1.0)
        self._release(key, name)

    def _send(self, key: AttemptKey, name: str, signum: int) -> None:
        """To the processes of its session."""
        started = task_files.read(str(self._folder(key)), name, task_files.STARTED)
        if started is not None:
            self._tasking.signal_session(key, int(started["pid"]), int(started["start"]), signum)

    def _release(self, key: AttemptKey, name: str) -> None:
        folder = str(self._folder(key))
        if task_files.read(folder, name, task_files.STATUS) is not None:
            task_files.remove(folder, name)
            self._tasking.poke(key)


def on_other_host(environment: Mapping[str, str], here: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process of the job on one host, as a task on another is to have it: with the GPUs, CPUs and
    files that the job has there. `here`: the environment that the job was given there.
    """
    carried = carried_network(environment, here)
    left, found = environment.get(OWN_TMPDIR), here.get(OWN_TMPDIR)
    if left and found:
        carried = {name: found if value == left else value for name, value in carried.items()}
    kept = {name: value for name, value in carried.items() if name not in OF_HOST}
    return {**kept, **{name: here[name] for name in OF_HOST if name in here}}


def of_these_gpus(environment: Mapping[str, str], places: Collection[int]) -> dict[str, str]:
    """The variables that list GPUs, with those at these places alone."""
    found = {}
    for name in OF_GPUS:
        if name in environment:
            gpus = environment[name].split(",")
            found[name] = ",".join(gpus[place] for place in places if place < len(gpus))
    if "SLURM_GPUS_ON_NODE" in environment:
        found["SLURM_GPUS_ON_NODE"] = str(len(places))
    return {"CUDA_VISIBLE_DEVICES": "", **found}


def _text(data: bytes) -> str:
    return data.decode("utf8", "surrogateescape")
