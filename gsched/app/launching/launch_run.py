"""The whole of one `glaunch --launch`: a plan, its tasks, and once more when they fail and may be started again."""

from __future__ import annotations

import contextlib
import os
import posix
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

from gsched.agent.tasks.launch_environment import launcher
from gsched.app.glaunch import FAILURE, LaunchRefused, hear, show
from gsched.app.launch_streams import OutputFault, end_of_pipe, say
from gsched.app.launching.host_answers import cores_of
from gsched.app.launching.launched_job import free_port, is_taken, launched_job
from gsched.app.launching.profile_message import tell_profiles
from gsched.app.launching.rank_client import RankClient
from gsched.base.errors import BadRequest, GschedError
from gsched.dialect.launching.launch_plan import (
    LaunchJob,
    LaunchPlan,
    plan_launch,
    task_script,
    task_variables,
    task_words,
)
from gsched.dialect.launching.launch_words import LaunchWords, read_launch
from gsched.dialect.launching.rank_file import RankTopology, rank_lines

PORT_TRIES = 3
"""How often another port is tried when somebody has taken it between its choice and its use."""
PORT_LOST_S = 120.0
"""A launch that has failed later than this did not fail for the port's sake."""
MOST_SCRIPT = 128 * 1024 - 1
"""Bytes of one argument. Source: MAX_ARG_STRLEN, execve(2)."""


def run(argv: list[str]) -> int:
    """The exit code."""
    name = argv[0]
    try:
        return _run(name, argv[1:])
    except GschedError as problem:
        say(f"{name}: {problem.text}")
    except LaunchRefused as problem:
        say(f"{name}: {problem}")
    except OutputFault as fault:
        if isinstance(fault.args[0], BrokenPipeError):
            return end_of_pipe()
        say(f"{name}: cannot write what a rank has printed: {fault.args[0].strerror}")
    except OSError as problem:
        place = f"{os.fsdecode(problem.filename)}: " if problem.filename else ""
        say(f"{name}: {place}{problem.strerror}")
    return FAILURE


def _run(name: str, words: list[str]) -> int:
    asked = read_launch(words)
    job = launched_job(os.environ)
    if asked.shows:
        _show(plan_launch(asked, replace(job, port=free_port() if asked.profile.needs_port else 0)))
        return 0
    check_program(asked, os.environ)
    plan_launch(asked, job)  # what cannot be is said before anything is prepared
    with _prepared(name, asked, job) as job:
        try:
            return _attempts(name, asked, job)
        finally:
            if asked.profiler:
                tell_profiles(name, job)


def _show(plan: LaunchPlan) -> None:
    """A line for each task: its host, its variables, what it executes. Raises OutputFault."""
    for number, host in enumerate(plan.task_hosts):
        variables = [f"{name}={value}" for name, value in task_variables(plan, number).items()]
        line = f"{host}: {shlex.join([*variables, *task_words(plan, number), *plan.asked.command])}\n"
        show(1, os.fsencode(line))


def check_program(asked: LaunchWords, environment: Mapping[str, str]) -> None:
    """That the framework's launcher is there. Raises BadRequest."""
    profile = asked.profile
    if profile.program and shutil.which(profile.program, path=environment.get("PATH")) is None:
        raise BadRequest(
            f"--launch {profile.name}: there is no {profile.program} in PATH: "
            f"activate the environment that has {profile.package}"
        )


def _attempts(name: str, asked: LaunchWords, job: LaunchJob) -> int:
    restarts = 0 if asked.min_hosts else asked.max_restarts  # an elastic launcher starts its processes again itself
    done, ports = 0, 1
    while True:
        posix.environ[b"GSCHED_RESTART_COUNT"] = b"%d" % done
        port = free_port() if asked.profile.needs_port else 0
        plan = plan_launch(asked, replace(job, port=port))
        began = time.monotonic()
        client = _launched(name, plan)
        if not client.code or client.is_told_to_end:
            return client.code
        is_port_lost = port and time.monotonic() - began < PORT_LOST_S and is_taken(port)
        if is_port_lost and ports < PORT_TRIES:
            ports += 1
            say(f"{name}: port {port} of {job.hosts[0].name} was taken by another meanwhile; trying another one")
        elif is_port_lost or done >= restarts:
            if is_port_lost:
                say(f"{name}: port {port} of {job.hosts[0].name} was taken by another again, after {PORT_TRIES} tries")
            return client.code
        else:
            done += 1
            say(f"{name}: all processes are started again ({done} of {restarts})")


def _launched(name: str, plan: LaunchPlan) -> RankClient:
    """One attempt, at its end. Raises BadRequest, LaunchRefused, OutputFault, OSError."""
    if len(os.fsencode(task_script(plan))) > MOST_SCRIPT:
        raise BadRequest(f"--launch: {len(plan.job.hosts)} hosts are more than one launch can have")
    client = RankClient(name, plan)
    hear(client)
    client.run()
    return client


@contextlib.contextmanager
def _prepared(name: str, asked: LaunchWords, job: LaunchJob) -> Iterator[LaunchJob]:
    """The files that the profile's program wants, which are gone afterwards."""
    profile = asked.profile
    if not (profile.has_shell or profile.has_rank_file):
        yield job
        return
    with tempfile.TemporaryDirectory(prefix="gsched-launch-") as folder:
        if profile.has_shell:
            _put_shell(folder)
        if profile.has_rank_file:
            job = replace(job, rank_file=os.path.join(folder, "rankfile"))
            _write_ranks(name, asked, job)
        yield job


def _put_shell(folder: str) -> None:
    """A program `ssh` that comes first on PATH and is glaunch."""
    path = os.path.join(folder, "ssh")
    with open(path, "w") as file:
        file.write(f'#!/bin/sh\nexec {shlex.quote(launcher() or "glaunch")} "$@"\n')
    os.chmod(path, 0o700)
    posix.environ[b"PATH"] = os.fsencode(folder) + b":" + posix.environ.get(b"PATH", b"")


def _write_ranks(name: str, asked: LaunchWords, job: LaunchJob) -> None:
    """The rank file, by the cores that the job may use on each host."""
    plan = plan_launch(asked, job)
    if len(set(plan.sizes)) > 1:
        raise BadRequest("--launch ddl needs as many slots on each host; --topo XxYxZ asks for them")
    hosts = [host.name for host in job.hosts]
    topology = asked.topology or RankTopology(plan.sizes[0], len(hosts), 1)
    with open(job.rank_file, "w") as file:
        file.write(rank_lines(topology, hosts, cores_of(name, hosts)))
    posix.environ[b"GSCHED_RANKFILE"] = os.fsencode(job.rank_file)
