"""The whole of one srun within a job, and its messages: `srun: error: ...` and exit code 1 for what cannot be."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
from collections.abc import Callable

from gsched.app.glaunch import LaunchRefused, read_file
from gsched.app.launch_streams import OutputFault, end_of_pipe, say
from gsched.app.steps.srun import STEP_FAILURE, address_of, pass_on
from gsched.app.steps.step_client import StepClient, through_master
from gsched.base.errors import BadRequest, GschedError
from gsched.base.node_lists import expand_nodes
from gsched.cli.session.call import LocalCall
from gsched.cli.session.command_line import version_line
from gsched.cli.session.session import Session
from gsched.dialect.slurm.job_variables import STEP_OF_SRUN
from gsched.dialect.slurm.srun_table import SRUN
from gsched.dialect.slurm.step_options import MPI_TYPES, StepAsk, read_step
from gsched.run.processes.warned_processes import STEP_COMMAND


def run(argv: list[str]) -> int:
    """The exit code."""
    name, words = argv[0], argv[1:]
    try:
        return _run(name, words)
    except GschedError as problem:
        say(f"{name}: error: {problem.text}".replace("error: fatal:", "fatal:"))
    except LaunchRefused as problem:
        job = os.environ.get("SLURM_JOB_ID", "")
        say(f"{name}: error: Unable to create step for job {job}: {problem}" if job else f"{name}: error: {problem}")
    except OutputFault as fault:
        if isinstance(fault.args[0], BrokenPipeError):
            return end_of_pipe()
        say(f"{name}: error: cannot write what a task has printed: {fault.args[0].strerror}")
    except OSError as problem:
        place = f"{os.fsdecode(problem.filename)}: " if problem.filename else ""
        say(f"{name}: error: {place}{problem.strerror}")
    except KeyboardInterrupt:
        return 130
    return STEP_FAILURE


def _run(name: str, words: list[str]) -> int:
    given = SRUN.read(words)
    if given.has("help", "usage", "version") or given.value("mpi") == "list":
        text = MPI_TYPES if given.has("mpi") else version_line() if given.has("version") else SRUN.help(name)
        os.write(1, text.encode())
        return 0
    environment = dict(os.environ)
    is_inner = environment.pop(STEP_OF_SRUN, "") == "1"
    with contextlib.suppress(OSError), open("/proc/self/comm", "w") as name_of_process:
        name_of_process.write(STEP_COMMAND)  # so that a warning of the job's end finds it
    ask = read_step(
        words,
        environment,
        os.getcwd(),
        lambda path: read_file(os.fsencode(path)),
        address_of(socket.gethostname()),
        lambda program: shutil.which(program, path=environment.get("PATH")) is not None,
    )
    _open_input(ask)
    own = environment.get("SLURM_JOB_ID") or environment.get("SLURM_JOBID", "")
    job = str(ask.job or own)
    tunnel = None if job == own and _is_first_host(environment) else _tunnel(name, job)
    client = StepClient(name, ask, job, tunnel, is_inner=is_inner)
    pass_on(signal.SIG_IGN if is_inner else client.on_signal)
    return client.to_its_end()


def _open_input(ask: StepAsk) -> None:
    """Standard input becomes the file of --input. Raises OSError."""
    if ask.input:
        file = os.open(os.path.join(ask.cwd, ask.input), os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(file, 0)
        os.close(file)


def _is_first_host(environment: dict[str, str]) -> bool:
    """Whether the agent of this host is the one that steps of the job are asked for."""
    if not environment.get("GSCHED_AGENT_SOCKET"):
        return False
    hosts = expand_nodes(environment.get("SLURM_JOB_NODELIST", ""))
    return not hosts or environment.get("SLURMD_NODENAME", hosts[0]) == hosts[0]


def _tunnel(name: str, job: str) -> Callable[[], socket.socket]:
    if not job.isdigit():
        raise BadRequest(f"Invalid job id {job[:40]}")
    session = Session(LocalCall([name]))

    def connect() -> socket.socket:
        return through_master(session.client.services.connect_steps(int(job)))

    return connect
