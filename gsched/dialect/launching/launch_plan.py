"""What runs where for one launch: from the profile and the job's hosts to a task for each host or rank.

A task's command is made from its profile's texts by `task_words` and `task_variables`; `task_script` is the same as one
shell text that all tasks of a launch share, since a launch sends one command to all of its hosts.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter

from gsched.base.errors import BadRequest
from gsched.dialect.launching.launch_profiles import LaunchProfile, LaunchUnit
from gsched.dialect.launching.launch_words import PER_GPU, PER_SLOT, LaunchWords

FORWARDED = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
"""What DDL's programs want to have on every host."""
_OF_TASK = ("rank", "local_rank", "local_size", "node", "host", "host_addr", "slots", "gpus", "is_first")
_RESTORED = "GSCHED_LAUNCH_GPUS"
"""The GPUs that the host has for the job: a launcher may write numbers of its own over CUDA_VISIBLE_DEVICES."""


@dataclass(frozen=True, slots=True)
class LaunchHost:
    """A host of the job: slots and GPUs that it has there, and the address that others reach it by."""

    name: str
    slots: int
    gpus: int = 0
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchJob:
    """What a launch is told of its job."""

    number: str
    hosts: tuple[LaunchHost, ...]
    port: int = 0
    rank_file: str = ""
    profile_folder: str = ""
    forwarded: tuple[str, ...] = ()
    """Those of FORWARDED that are set."""


@dataclass(frozen=True, slots=True)
class PlacedTask:
    """One task: on which host (by its place), its first or only rank, and that rank's place on the host."""

    node: int
    rank: int
    local_rank: int


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """A launch that can be carried out."""

    asked: LaunchWords
    job: LaunchJob
    sizes: tuple[int, ...]
    """Ranks on each host."""
    tasks: tuple[PlacedTask, ...] = field(default=())

    @property
    def profile(self) -> LaunchProfile:
        """That of the launch."""
        return self.asked.profile

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return sum(self.sizes)

    @property
    def uses_elastic(self) -> bool:
        """Whether the framework itself starts processes again, with the hosts that are left."""
        return self.asked.min_hosts > 0

    @property
    def task_hosts(self) -> list[str]:
        """The host of each task."""
        return [self.job.hosts[task.node].name for task in self.tasks]


def plan_launch(asked: LaunchWords, job: LaunchJob) -> LaunchPlan:
    """Who runs where. Raises BadRequest for what cannot be on these hosts."""
    profile = asked.profile
    sizes = tuple(_size(asked, host) for host in job.hosts)
    if asked.topology is not None and (len(sizes), sum(sizes)) != (asked.topology.host_count, asked.topology.size):
        topology = asked.topology
        raise BadRequest(
            f"--topo {topology} has {topology.size} ranks on {topology.host_count} hosts, "
            f"{topology.gpus} on each; the job has {_shown(job.hosts)}"
        )
    if profile.has_even_hosts and len(set(sizes)) > 1:
        raise BadRequest(
            f"--launch {profile.name} starts as many processes on each host, and the job has {_shown(job.hosts)}"
        )
    if asked.min_hosts > len(sizes):
        raise BadRequest(f"--min-hosts: {asked.min_hosts} is more than the {len(sizes)} hosts of the job")
    return LaunchPlan(asked, job, sizes, tuple(_tasks(profile.unit, sizes)))


def _size(asked: LaunchWords, host: LaunchHost) -> int:
    if asked.topology is not None:
        if host.slots != asked.topology.gpus:
            return host.slots  # not what the topology says, which is told of the whole
        return asked.topology.gpus
    if asked.per_host.isdigit():
        return int(asked.per_host)
    if asked.per_host == PER_GPU and not host.gpus:
        raise BadRequest(f"--nproc-per-node gpu: the job has no GPU on {host.name}")
    wants_gpus = asked.per_host == PER_GPU or (asked.per_host != PER_SLOT and asked.profile.per_gpu)
    return host.gpus if wants_gpus and host.gpus else host.slots


def _shown(hosts: Sequence[LaunchHost]) -> str:
    return ", ".join(f"{host.slots} slots on {host.name}" for host in hosts)


def _tasks(unit: LaunchUnit, sizes: Sequence[int]) -> list[PlacedTask]:
    if unit is LaunchUnit.JOB:
        return [PlacedTask(0, 0, 0)]
    found, rank = [], 0
    for node, size in enumerate(sizes):
        count = size if unit is LaunchUnit.RANK else 1
        found += [PlacedTask(node, rank + place, place) for place in range(count)]
        rank += size
    return found


# -- a task's command ------------------------------------------------------------------------------------------------


def task_variables(plan: LaunchPlan, number: int) -> dict[str, str]:
    """What the task with this number has in its environment of its profile."""
    fields = {**_common(plan), **_of_task(plan, plan.tasks[number])}
    return {name: text.format_map(fields) for name, text in plan.profile.variables}


def task_words(plan: LaunchPlan, number: int) -> list[str]:
    """What the task with this number executes, up to the command of the ranks."""
    fields = {**_common(plan), **_of_task(plan, plan.tasks[number])}
    found: list[str] = []
    for text in _words(plan):
        found += _forwarding(plan) if text == "{forwarded}" else [text.format_map(fields)]
    return found


def task_script(plan: LaunchPlan) -> str:
    """A text for /bin/sh that finds out which task it is, and executes what `task_words` says with the variables of
    `task_variables`; its arguments are the command of the ranks.
    """
    lines = [_finding(plan)]
    if _restores(plan):
        lines.append(f'export {_RESTORED}="${{CUDA_VISIBLE_DEVICES-}}"')
    if plan.profile.spared:
        lines.append(f"trap '' {' '.join(plan.profile.spared)}")
    lines += [f"unset {name}" for name in plan.profile.dropped]
    common = _common(plan)
    lines += [f"export {name}={_in_shell(text, common)}" for name, text in plan.profile.variables]
    if plan.profile.script:
        return "\n".join([*lines, _filled(plan.profile.script, common)])
    words: list[str] = []
    for text in _words(plan):
        words += map(shlex.quote, _forwarding(plan)) if text == "{forwarded}" else [_in_shell(text, common)]
    return "\n".join([*lines, " ".join(["exec", *words, '"$@"'])])


def rank_words(plan: LaunchPlan) -> list[str]:
    """The command of each rank: it learns its number, and whether it is the first, and has the host's GPUs."""
    if plan.profile.is_single:
        return list(plan.asked.command)
    number = "0"
    for name in reversed(plan.profile.rank_variables):
        number = f"${{{name}:-{number}}}"
    lines = [
        f"GSCHED_RANK={number}; export GSCHED_RANK",
        'if [ "$GSCHED_RANK" = 0 ]; then GSCHED_IS_RANK0=1; export GSCHED_IS_RANK0; else unset GSCHED_IS_RANK0; fi',
    ]
    if _restores(plan):
        lines.append(
            f'if [ -n "${_RESTORED}" ]; then export CUDA_VISIBLE_DEVICES="${_RESTORED}"; fi; unset {_RESTORED}'
        )
    if plan.profile.spared:
        lines.append(_hearing(plan.profile.spared))
    prefix = ""
    if plan.asked.profiler:
        folder = shlex.quote(plan.job.profile_folder)
        lines.append(f"GSCHED_PROFILE_DIR={folder}; export GSCHED_PROFILE_DIR; mkdir -p {folder}")
        prefix = profiler_words(plan.asked.profiler) + " "
    return ["/bin/sh", "-c", "\n".join([*lines, f'exec {prefix}"$@"']), "rank", *plan.asked.command]


def _hearing(signals: Sequence[str]) -> str:
    """Shell text by which the ranks hear signals that their launcher does not; a shell cannot undo it by itself. Where
    `env` is older (GNU coreutils 8.30) only programs do that ask for them anew, as all but shells can.
    """
    option = f"--default-signal={','.join(signals)}"
    return f'if env {option} true 2>/dev/null; then set -- env {option} "$@"; fi'


def _restores(plan: LaunchPlan) -> bool:
    """Whether ranks are children of a task on their host. What MPI starts elsewhere has that host's GPUs already."""
    return plan.profile.unit is not LaunchUnit.JOB


_FILE = '"$GSCHED_PROFILE_DIR/rank-$GSCHED_RANK'
_PROFILER_WORDS = {
    "nsys": f'nsys profile --force-overwrite=true --output {_FILE}"',
    "ncu": f'ncu --force-overwrite --export {_FILE}"',
    "nvprof": f'nvprof --force-overwrite --export-profile {_FILE}.nvprof"',
    "rocprof": f'rocprof -o {_FILE}.csv"',
    "py-spy": f'py-spy record --subprocesses --output {_FILE}.svg" --',
}


def profiler_words(profiler: str) -> str:
    """Shell text that stands before a rank's command. In a command of the user's own %r is the rank, %d the folder.

    Raises BadRequest for quotes that do not end.
    """
    known = _PROFILER_WORDS.get(profiler)
    if known is not None:
        return known
    try:
        words = shlex.split(profiler)
    except ValueError as error:
        raise BadRequest(f"--profile: '{profiler[:40]}': {error}") from None
    values = {"%r": "$GSCHED_RANK", "%d": "$GSCHED_PROFILE_DIR", "%%": "%"}
    shown = []
    for word in words:
        parts = re.split("(%[rd%])", word)
        shown.append("".join(f'"{values[part]}"' if part in values else shlex.quote(part) for part in parts if part))
    return " ".join(shown)


def _words(plan: LaunchPlan) -> tuple[str, ...]:
    if plan.size == 1 and plan.profile.lone_words:
        return plan.profile.lone_words
    return plan.profile.elastic_words if plan.uses_elastic else plan.profile.words


def _forwarding(plan: LaunchPlan) -> list[str]:
    return [word for name in plan.job.forwarded for word in ("-x", name)]


def _common(plan: LaunchPlan) -> dict[str, str]:
    """Fields that are the same for all tasks."""
    hosts = plan.job.hosts
    placed = list(zip(hosts, plan.sizes, strict=True))
    world = json.dumps({host.name: list(range(size)) for host, size in placed}).encode()
    return {
        "addr": hosts[0].address or hosts[0].name,
        "port": str(plan.job.port),
        "size": str(plan.size),
        "nodes": str(len(hosts)),
        "least_nodes": str(plan.asked.min_hosts or len(hosts)),
        "restarts": str(plan.asked.max_restarts),
        "job": plan.job.number,
        "hosts": ",".join(f"{host.name}:{size}" for host, size in placed),
        "world": base64.urlsafe_b64encode(world).decode(),
        "rank_file": plan.job.rank_file,
    }


def _of_task(plan: LaunchPlan, task: PlacedTask) -> dict[str, str]:
    host = plan.job.hosts[task.node]
    return {
        "rank": str(task.rank),
        "local_rank": str(task.local_rank),
        "local_size": str(plan.sizes[task.node]),
        "node": str(task.node),
        "host": host.name,
        "host_addr": host.address or host.name,
        "slots": str(host.slots),
        "gpus": str(host.gpus),
        "is_first": "1" if task.node == 0 else "0",
    }


def _finding(plan: LaunchPlan) -> str:
    """Shell text that sets the fields of the task: glaunch counts its tasks from 1, in the order of the plan."""
    table = " ".join(
        shlex.quote(f"{host.name} {host.address or host.name} {size} {host.slots} {host.gpus}")
        for host, size in zip(plan.job.hosts, plan.sizes, strict=True)
    )
    step = "$_g_local_size" if plan.profile.unit is LaunchUnit.RANK else "1"
    return f"""\
_g_task=$((${{LSF_PM_TASKID:-1}} - 1)) _g_node=0 _g_rank=0 _g_first=0
for _g_each in {table}; do
  _g_rest=$_g_each
  _g_host=${{_g_rest%% *}} _g_rest=${{_g_rest#* }}
  _g_host_addr=${{_g_rest%% *}} _g_rest=${{_g_rest#* }}
  _g_local_size=${{_g_rest%% *}} _g_rest=${{_g_rest#* }}
  _g_slots=${{_g_rest%% *}} _g_gpus=${{_g_rest#* }}
  if [ $_g_task -lt $((_g_first + {step})) ]; then break; fi
  _g_first=$((_g_first + {step})) _g_rank=$((_g_rank + _g_local_size)) _g_node=$((_g_node + 1))
done
_g_local_rank=$((_g_task - _g_first)) _g_rank=$((_g_rank + _g_task - _g_first)) _g_is_first=$((_g_node == 0))"""


def _filled(text: str, common: Mapping[str, str]) -> str:
    """A shell text with its fields: only names that there are, for the text may have braces of its own."""

    def value(found: re.Match[str]) -> str:
        name = found[1]
        return f"$_g_{name}" if name in _OF_TASK else shlex.quote(common[name]) if name in common else found[0]

    return re.sub(r"(?<!\$)\{([a-z_]+)\}", value, text)


def _in_shell(text: str, common: Mapping[str, str]) -> str:
    """A text with fields as one word for the shell."""
    found = []
    for literal, name, _, _ in Formatter().parse(text):
        if literal:
            found.append(shlex.quote(literal))
        if name is not None:
            found.append(f'"$_g_{name}"' if name in _OF_TASK else shlex.quote(common[name]))
    return "".join(found)
