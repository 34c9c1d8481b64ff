"""--launch, --topo and --profile of gsub: the job's command becomes glaunch with the same words.

What a topology needs (slots, hosts, GPUs of each) is asked for as by -n, -R and -gpu.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gsched.base.errors import BadRequest
from gsched.dialect.launching.launch_words import launched_command
from gsched.dialect.launching.launcher_names import is_launcher
from gsched.dialect.launching.rank_file import RankTopology
from gsched.dialect.options import Option, Parsed, told_of

LAUNCH_OPTIONS = (
    Option(
        "-launch",
        "PROFILE",
        "run it by `glaunch --launch PROFILE`: on all hosts of the job",
        "--launch torch",
    ),
    Option("-topo", "XxYxZ", "with --launch ddl: GPUs of a host x hosts x racks", "--topo 4x2x1"),
    Option("-profile", "PROFILER", "run each process under nsys, ncu, nvprof, rocprof, py-spy or a command of yours"),
)
LAUNCH_NAMES = tuple(option.name for option in LAUNCH_OPTIONS)
_SPAN = re.compile(r"\bspan\s*\[")
_GPUS = re.compile(r"\bnum\s*=\s*([0-9]+)", re.ASCII)


def read_launched(options: Parsed, command: str, words: Sequence[str]) -> tuple[Parsed, str]:
    """The options with what the launch needs of the cluster, and the job's command. `words`: those of the command line
    that it was made from; without any it is a script. Raises BadRequest.
    """
    if not options.has(*LAUNCH_NAMES):
        return options, command
    with told_of(options.line(*LAUNCH_NAMES)):
        if not words:
            raise BadRequest("--launch and --profile start a command, and the job is a script: call glaunch in it")
        if is_launcher(words[0]):
            raise BadRequest(f"the job's command is launched already: {words[0][:60]}: name the command itself")
        value, topology, profiler = (options.last(name) for name in LAUNCH_NAMES)
        for name in LAUNCH_NAMES:
            if options.has(name) and not options.last(name).strip():
                raise BadRequest(f"option -{name} is empty")
        asked, line = launched_command(value, topology, profiler, words)
        if asked.topology is None:
            return options, line
        return options.followed_by(Parsed(_shape(options, asked.topology), options.rest)), line


def _shape(options: Parsed, topology: RankTopology) -> tuple[tuple[str, str], ...]:
    """The options that ask for what the topology needs. Raises BadRequest where others contradict it."""
    slots, gpus = options.last("n", str(topology.size)).strip(), topology.gpus
    if slots not in (str(topology.size), f"{topology.size},{topology.size}"):
        raise BadRequest(
            f"-n {slots[:40]}: --topo {topology} is {topology.size} ranks, {gpus} a host on {topology.host_count} hosts"
        )
    if options.has("nnodes") or any(_SPAN.search(text) for text in options.all("R")):
        raise BadRequest(f"--topo {topology} says how the slots lie on hosts, so span[...] and -nnodes cannot")
    given = options.last("gpu") if options.has("gpu") else f"num={gpus}"
    found = _GPUS.search(given)
    if given != "-" and int(found[1] if found else 1) not in (0, gpus):
        raise BadRequest(f"-gpu {given[:40]}: --topo {topology} has {gpus} GPUs on each host")
    span = f"span[ptile={gpus}]" if topology.host_count > 1 else "span[hosts=1]"
    return (("n", str(topology.size)), ("R", span), ("gpu", given))
