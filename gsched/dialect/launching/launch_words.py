"""The options of a launch profile: those of glaunch, and what gsub makes of its own for the job's command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from gsched.base.errors import BadRequest
from gsched.dialect.command_line import join_words
from gsched.dialect.launching.launch_profiles import PLAIN, PROFILES, LaunchProfile
from gsched.dialect.launching.rank_file import RankTopology
from gsched.dialect.options import Option, OptionTable, Parsed

MOST_RESTARTS = 1000
MOST_PER_HOST = 128
"""Processes that may be asked for on each host; tasks of a job on a host are limited to as many."""
PER_GPU, PER_SLOT = "gpu", "slot"
PROFILERS = ("nsys", "ncu", "nvprof", "rocprof", "py-spy")
"""Those that are known by name; any other text is a command that the rank's command is put behind."""

PROFILE_OPTIONS = (
    Option("-launch", "PROFILE", f"start it as a training program: {', '.join(PROFILES)}", "--launch torch"),
    *(Option(f"-{name}", help=f"short for --launch {name}") for name in PROFILES),
    Option("-topo", "XxYxZ", "with ddl: GPUs of a host x hosts of a rack x racks", "--topo 4x2x1"),
    Option("-nproc-per-node", "gpu|slot|N", "processes on each host: one for each GPU, for each slot, or so many"),
    Option("-max-restarts", "N", "start all processes again when one fails, so many times (0)"),
    Option("-min-hosts", "N", "with torch: go on while so many hosts are left (elastic)"),
    Option(
        "-profile", "PROFILER", f"run each rank under {', '.join(PROFILERS)} or a command of yours", "--profile nsys"
    ),
    Option("-show", help="print what would be started on each host, and start nothing"),
)
"""What glaunch takes beside rsh's options; any of them comes first."""
_TABLE = OptionTable("", "", PROFILE_OPTIONS)
_SHELL_TEXT = re.compile(r"[;&|\n]")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchWords:
    """A launch as asked for."""

    profile: LaunchProfile
    command: tuple[str, ...] = ()
    topology: RankTopology | None = None
    per_host: str = ""
    """`gpu`, `slot`, a number; empty: as the profile has it."""
    max_restarts: int = 0
    min_hosts: int = 0
    """0: all hosts are needed."""
    profiler: str = ""
    shows: bool = False
    """Nothing is started; it is told what would be."""


def read_launch(words: Sequence[str]) -> LaunchWords:
    """What `glaunch` with these words is to start. Raises BadRequest."""
    options = _TABLE.read(words)
    asked = _read(options, tuple(options.rest))
    if not asked.command:
        raise BadRequest("no command to run (-h lists the options)")
    return asked


def launched_command(value: str, topology: str, profiler: str, command: Sequence[str]) -> tuple[LaunchWords, str]:
    """What gsub's --launch, --topo and --profile with these values ask for, and the command line of the job: glaunch
    with the same words. `value` may have options of glaunch behind the profile. Raises BadRequest.
    """
    try:
        given = shlex.split(value)
    except ValueError as error:
        raise BadRequest(f"--launch: '{value[:40]}': {error}") from None
    words = ["--launch", *given] if given else []
    if topology:
        words += ["--topo", topology]
    if profiler:
        words += ["--profile", profiler]
    options = _TABLE.read(words)
    if options.rest:
        raise BadRequest(f"--launch: '{options.rest[0][:40]}' behind the profile is no option of a launch")
    asked = _read(options, ())
    line = join_words(command)
    if len(command) == 1 and _SHELL_TEXT.search(command[0]):  # all of it is for the ranks, not its first part alone
        line = f"/bin/sh -c {shlex.quote(command[0])}"
    return asked, f"glaunch {shlex.join(words)} {line}"


def _read(options: Parsed, command: tuple[str, ...]) -> LaunchWords:
    profile = _profile(options)
    topology = RankTopology.read(options.last("-topo")) if options.has("-topo") else None
    if topology is not None and not profile.has_rank_file:
        raise BadRequest(f"--topo is for --launch ddl, not for {profile.name or '--profile alone'}")
    min_hosts = _number(options, "-min-hosts", 1, 10_000) if options.has("-min-hosts") else 0
    if min_hosts and not profile.is_elastic:
        raise BadRequest(f"--min-hosts: {profile.name or 'such a job'} needs all of its hosts; torch is elastic")
    per_host = _per_host(options)
    if per_host and topology is not None:
        raise BadRequest("--nproc-per-node and --topo say the same: XxYxZ has X processes on each host")
    profiler = options.last("-profile")
    if options.has("-profile") and not profiler.strip():
        raise BadRequest("--profile needs the name of a profiler, or a command")
    if profiler and profile.is_single:
        raise BadRequest(f"--profile: gsched does not start the processes of {profile.name}")
    return LaunchWords(
        profile=profile,
        command=command,
        topology=topology,
        per_host=per_host,
        max_restarts=_number(options, "-max-restarts", 0, MOST_RESTARTS) if options.has("-max-restarts") else 0,
        min_hosts=min_hosts,
        profiler=profiler,
        shows=options.has("-show"),
    )


def _profile(options: Parsed) -> LaunchProfile:
    named = [value if name == "-launch" else name[1:] for name, value in options.given]
    named = [
        value
        for (name, _), value in zip(options.given, named, strict=True)
        if name == "-launch" or name[1:] in PROFILES
    ]
    if len(set(named)) > 1:
        raise BadRequest(f"one profile is launched at a time, not {' and '.join(dict.fromkeys(named))}")
    if not named and options.has("-profile"):
        return PLAIN
    if not named:
        given = options.given[0][0] if options.given else "-launch"
        raise BadRequest(f"-{given} needs a profile beside it: --launch {'|'.join(PROFILES)}")
    if named[0] not in PROFILES:
        raise BadRequest(f"--launch: '{named[0][:40]}' is no profile; there are {', '.join(PROFILES)}")
    return PROFILES[named[0]]


def _per_host(options: Parsed) -> str:
    if not options.has("-nproc-per-node"):
        return ""
    text = options.last("-nproc-per-node")
    if text in (PER_GPU, PER_SLOT):
        return text
    return str(_number(options, "-nproc-per-node", 1, MOST_PER_HOST))


def _number(options: Parsed, name: str, least: int, most: int) -> int:
    text = options.last(name)
    if not (text.isascii() and text.isdigit() and least <= int(text[:9]) <= most):
        raise BadRequest(f"-{name}: '{text[:40]}' is no number from {least} to {most}")
    return int(text)
