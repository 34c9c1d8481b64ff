"""How many functions of gsched four things pass through; a program, whose figures are in docs/architecture.md.

    .venv/bin/python tests/unit/core/code_ways.py

Each function counts once, however often it is called; comprehensions and generated code do not count.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import msgspec
from core_world import LOCATIONS, START, World, gpus, make_config

import gsched
from gsched.config.configuration import load
from gsched.config.template import NewConfiguration, write_private
from gsched.core.command import Reconfigure
from gsched.dialect.bsub import read_submission
from gsched.dialect.spec_values import ValueContext
from gsched.model.queues.application import Application
from gsched.model.queues.queue import Queue

ROOT = str(Path(gsched.__file__).parent)
AROUND = ValueContext(cwd="/", now=START, zone=UTC)


def functions(way: Callable[[], Any]) -> int:
    """Those of gsched that are called on the way."""
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOT) and not code.co_name.startswith("<"):
            seen.add(code)

    sys.setprofile(note)
    try:
        way()
    finally:
        sys.setprofile(None)
    return len(seen)


def quiet(world: World) -> World:
    """Without the audit of tests, which is on no way."""
    world.engine.audit = list  # type: ignore[method-assign]
    return world


def no_file(path: str) -> bytes:
    raise FileNotFoundError(path)


def requirement() -> tuple[int, int]:
    """From the words of gsub to the job's place: of the first job, and of one like it."""
    queue = Queue(name="normal", priority=30, res_req="select[tmp>10]")
    profile = Application(name="training", res_req="select[swp>10]")
    world = quiet(World(make_config(("a", "b"), (queue,), applications={"training": profile})))
    words = [
        "-app",
        "training",
        "-R",
        "select[mem>100] rusage[mem=10]",
        "-gpu",
        "num=1:mode=exclusive_process",
        "./train.sh",
    ]

    def submitted() -> None:
        parsed = read_submission(words, read_stdin=bytes, read_file=no_file, env={}, around=AROUND)
        assert parsed.spec is not None
        (job_id,) = world.submit(parsed.spec)
        world.settle()
        assert world.held(job_id)

    return functions(submitted), functions(submitted)


def gpu_report() -> int:
    """A host's GPUs are read again, and one has become warmer and fuller."""
    world = quiet(World())
    changed = [
        msgspec.structs.replace(gpu, used_mib=70.0 * gpu.index, temperature_c=60 + gpu.index) for gpu in gpus(4).gpus
    ]

    def reported() -> None:
        world.report(gpus=msgspec.structs.replace(gpus(4), gpus=tuple(changed)))
        world.settle()

    return functions(reported)


def kill() -> int:
    """gkill of a running job, to its end."""
    world = quiet(World())
    (job_id,) = world.run()

    def killed() -> None:
        assert world.control("kill", job_id) == [""]
        world.ended(job_id, exit_code=130)
        world.settle()

    return functions(killed)


def reconfiguration() -> int:
    """From the files to the engine."""
    with tempfile.TemporaryDirectory() as folder:
        conf = f"{folder}/conf"
        write_private(
            conf, NewConfiguration(cluster="c", hosts=("a",), slots=4, folders=LOCATIONS, gpu_provider="none")
        )
        first = load(conf, hostname="a").config
        assert first is not None
        world = quiet(World(first))
        with Path(conf, "lsb.queues").open("a") as queues:
            queues.write("# changed\n")

        def reconfigured() -> None:
            loaded = load(conf, hostname="a").config
            assert loaded is not None
            world.do(Reconfigure("root", loaded))
            world.settle()

        return functions(reconfigured)


if __name__ == "__main__":
    first, again = requirement()
    print(f"requirement, from the words of gsub to the place: {first}; a job like one before: {again}")
    print(f"changed reading of a host's GPUs: {gpu_report()}")
    print(f"gkill of a running job, to its end: {kill()}")
    print(f"reconfiguration, from the files to the engine: {reconfiguration()}")
