"""Applies the commands of a measure (`gadmin hopen h3`, `grsvdel night`) to a cluster of the tests, as if typed."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC
from functools import reduce

from core_world import World
from msgspec.structs import replace as replaced

from gsched.core.command import ControlGpus, ModifyJobs
from gsched.dialect.bmod import read_modification
from gsched.dialect.spec_values import ValueContext
from gsched.model.config import ClusterConfig
from gsched.model.queues.limit import Limit
from gsched.model.queues.user import UserLimits
from gsched.model.views.explanation import AdminChange, AdminMeasure

Arguments = list[str]


def applied(world: World, measure: AdminMeasure, commands: Sequence[str] | None = None) -> None:
    """Give the commands (None: all), then plan as long as something starts. Files are edited before `reconfig`."""
    for command in measure.commands if commands is None else commands:
        program, *words = shlex.split(command)
        if program == "gadmin":
            program, *words = words
        if program == "reconfig":
            world.reconfigure(reduce(_edited, (each for each in measure.changes if each.file), world.config))
            continue
        _COMMANDS[program](world, words)
    world.settle()


def less(measure: AdminMeasure) -> Iterator[AdminMeasure]:
    """The same with one of its raised limits a step lower, each in turn."""
    for place, change in enumerate(measure.changes):
        new = int(change.new) - 1 if change.what == "limit" else 0
        if change.file and new:
            changes = (*measure.changes[:place], replaced(change, new=str(new)), *measure.changes[place + 1 :])
            yield replaced(measure, changes=changes)
        elif change.setting == "-J %" and new:  # its command has the number
            commands = tuple(each.replace(f"-J %{change.new} ", f"-J %{new} ") for each in measure.commands)
            yield replaced(measure, commands=commands)


# -- files ------------------------------------------------------------------------------------------------------------

_QUEUE_FIELDS = {
    "QJOB_LIMIT": "job_limit",
    "UJOB_LIMIT": "user_limit",
    "HJOB_LIMIT": "host_limit",
    "PJOB_LIMIT": "processor_limit",
}


def _edited(config: ClusterConfig, change: AdminChange) -> ClusterConfig:
    """The configuration after somebody has written the new value into the file."""
    new, name = int(change.new), change.name.rpartition(" ")[2]
    if change.file == "lsb.resources":
        limits = tuple(_with_setting(each, change) if each.name == name else each for each in config.limits)
        return replaced(config, limits=limits)
    if change.file == "lsb.queues":
        queue = replaced(config.queues[name], **{_QUEUE_FIELDS[change.setting]: new})
        return replaced(config, queues={**config.queues, name: queue})
    if change.file == "lsb.users":
        row = replaced(config.users.get(name) or config.users.get("default") or UserLimits(name=name), name=name)
        row = replaced(row, **{{"MAX_JOBS": "max_jobs", "JL/P": "max_jobs_per_processor"}[change.setting]: new})
        return replaced(config, users={**config.users, name: row})
    assert (change.file, change.setting) == ("lsb.hosts", "JL/U")
    return replaced(config, hosts={**config.hosts, name: replaced(config.hosts[name], user_slots=new)})


def _with_setting(limit: Limit, change: AdminChange) -> Limit:
    if change.setting == "GPU_HOURS":
        return replaced(limit, gpu_hours=float(change.new))
    resource = change.setting.lower()
    old, new = float(change.old), float(change.new)
    amounts = tuple(replaced(each, amount=new) if each.amount == old else each for each in limit.amounts[resource])
    return replaced(limit, amounts={**limit.amounts, resource: amounts})


# -- commands ---------------------------------------------------------------------------------------------------------


def _gbgmod(world: World, words: Arguments) -> None:
    option, limit, name = words
    assert option == "-L" and world.groups("modify", name, user="root", job_limit=int(limit)) == [""]


def _gmod(world: World, words: Arguments) -> None:
    *_, job_id = words
    wanted = read_modification(words, ValueContext(cwd="/", now=world.now, zone=UTC))
    done = world.do(ModifyJobs("root", True, (int(job_id),), wanted.spec, tuple(wanted.values)))
    assert [each.error for each in done] == [""]


def _grequeue(world: World, words: Arguments) -> None:
    """The jobs end, and wait again."""
    ids = [int(word) for word in words]
    assert world.control("requeue", *ids, user="root") == [""] * len(ids)
    for job_id in ids:
        allocation = world.job(job_id).allocation
        assert allocation is not None
        world.ended(job_id, world.job(job_id).attempt, allocation.first_host, exit_code=None, signal=15)


def _gpuopen(world: World, words: Arguments) -> None:
    world.do(ControlGpus("root", True, "open", tuple(words)))


def _grsvmod(world: World, words: Arguments) -> None:
    *options, name = words
    values = dict(zip(options[::2], options[1::2], strict=True))
    amounts = {"slots": int(values.get("-n", 0)), "gpus": int(values.get("-gpu", 0))}
    assert world.reserve("modify", name=name, hosts=(values["-m"],), **amounts) == name


_COMMANDS: dict[str, Callable[[World, Arguments], object]] = {
    "hopen": lambda world, words: world.hosts("open", *words),
    "qact": lambda world, words: world.queues("activate", *words),
    "gbgmod": _gbgmod,
    "gmod": _gmod,
    "gpuopen": _gpuopen,
    "grequeue": _grequeue,
    "grsvdel": lambda world, words: world.reserve("remove", name=words[0]),
    "grsvmod": _grsvmod,
}
