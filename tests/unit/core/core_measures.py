"""Applies the commands of a measure (`gadmin hopen h3`, `grsvdel night`) to a cluster of the tests, as if typed."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from core_world import World

from gsched.core.command import ControlGpus
from gsched.model.views.explanation import AdminMeasure

Arguments = list[str]


def applied(world: World, measure: AdminMeasure, commands: Sequence[str] | None = None) -> None:
    """Give the commands (None: all), then plan as long as something starts."""
    for command in measure.commands if commands is None else commands:
        program, *words = shlex.split(command)
        if program == "gadmin":
            program, *words = words
        _COMMANDS[program](world, words)
    world.settle()


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
    "gpuopen": _gpuopen,
    "grsvdel": lambda world, words: world.reserve("remove", name=words[0]),
    "grsvmod": _grsvmod,
}
