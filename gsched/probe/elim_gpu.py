"""The program `elim.gpu`: prints how many GPUs a host has in each compute mode, for gsched or any LSF.

    4 ngpus 4 ngpus_shared 0 ngpus_excl_t 0 ngpus_excl_p 4

One line per interval until it is interrupted. The four pairs always, `ngpuprohibited` as the fifth where LSF_RESOURCES
names it. While the GPUs cannot be read it prints nothing and says why on standard error: unknown is never printed as 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Mapping
from typing import Protocol

from gsched.base.envdir import setting
from gsched.base.errors import BadRequest, GschedError
from gsched.model.hosts.host import GpuReport
from gsched.probe.gpu import GpuProbe, count_gpus, probe_for

DEFAULT_INTERVAL_S = 15.0

USAGE = """\
usage: elim.gpu [--interval SECONDS] [--once]

Prints "NUM name value ..." with the host's GPUs by compute mode, again and again until interrupted.

  --interval SECONDS  time between two lines (GSCHED_GPU_INTERVAL, in the environment or lsf.conf, else 15)
  --once              print one line and end; exit code 1 when the GPUs cannot be read

GSCHED_GPU_PROVIDER (in the environment, else in lsf.conf) says where GPUs are read from:
nvml (the default), none, or sim:FOLDER (FOLDER/HOST.json); GSCHED_HOSTNAME is HOST where it is not this machine's name.
"""

_ALWAYS = ("ngpus", "ngpus_shared", "ngpus_excl_t", "ngpus_excl_p")
_PROHIBITED = "ngpuprohibited"


class ProgramContext(Protocol):
    """What the program runs in; a command's Call is one."""

    argv: list[str]
    env: dict[str, str]
    hostname: str

    def write(self, text: str) -> None: ...

    def error(self, text: str) -> None: ...

    def flush(self) -> None: ...

    def on_cancel(self, action: Callable[[], object]) -> None: ...

    def raise_if_cancelled(self) -> None: ...


class ElimOptions:
    """The command line and the environment, read."""

    def __init__(self, arguments: list[str], env: Mapping[str, str]) -> None:
        self.once = False
        self.help = False
        self._env = env
        interval = ""
        rest = list(arguments)
        while rest:
            word = rest.pop(0)
            name, equals, value = word.partition("=")
            if name == "--interval":
                if not equals and not rest:
                    raise BadRequest("elim.gpu: --interval needs a number of seconds")
                interval = value if equals else rest.pop(0)
            elif word == "--once":
                self.once = True
            elif word in ("-h", "--help"):
                self.help = True
            else:
                raise BadRequest(f"elim.gpu: '{word}' is not understood (try --help)")
        self._fixed_s = _seconds(interval, "--interval") if interval else None
        self._last_s = DEFAULT_INTERVAL_S if self._fixed_s else self._configured_s()

    def interval_s(self) -> float:
        """Seconds to the next line: lsf.conf is read anew, so that a change holds from the next line on."""
        if self._fixed_s is None:
            with contextlib.suppress(GschedError):  # half written, or wrong: the master says so, the last one holds
                self._last_s = self._configured_s()
        return self._last_s if self._fixed_s is None else self._fixed_s

    def _configured_s(self) -> float:
        text = setting(self._env, "GSCHED_GPU_INTERVAL")
        return _seconds(text, "GSCHED_GPU_INTERVAL") if text else DEFAULT_INTERVAL_S


def format_line(report: GpuReport, wanted: str = "") -> str:
    """The line for a report, with its line break; `wanted` is LSF_RESOURCES."""
    names = (*_ALWAYS, _PROHIBITED) if _PROHIBITED in wanted.split() else _ALWAYS
    counts = count_gpus(report)
    pairs = " ".join(f"{name} {counts[name]}" for name in names)
    return f"{len(names)} {pairs}\n"


def provider_of(env: Mapping[str, str]) -> str:
    """GSCHED_GPU_PROVIDER of the environment, else of lsf.conf, else "nvml"."""
    return setting(env, "GSCHED_GPU_PROVIDER") or "nvml"


def main(call: ProgramContext) -> int:
    """Run elim.gpu; returns its exit code. Raises BadRequest for a command line or provider that cannot be used."""
    options = ElimOptions(call.argv[1:], call.env)
    if options.help:
        call.write(USAGE)
        return 0
    probe_name = provider_of(call.env)
    host = call.env.get("GSCHED_HOSTNAME") or call.hostname
    code = asyncio.run(_report(call, options, lambda: probe_for(probe_name, host)))
    call.raise_if_cancelled()
    return code


async def _report(call: ProgramContext, options: ElimOptions, open_probe: Callable[[], GpuProbe]) -> int:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    call.on_cancel(lambda: loop.call_soon_threadsafe(stopping.set))
    probe = open_probe()
    stopped = asyncio.ensure_future(stopping.wait())
    complaint = ""
    due = loop.time()
    try:
        while True:
            sampling = asyncio.ensure_future(probe.sample())
            await asyncio.wait({sampling, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if stopped.done():
                sampling.cancel()
                return 0
            report = sampling.result()
            complaint = _say(call, report, complaint)
            if options.once:
                return 0 if report.known else 1
            # Counted from the first line, so that the work in between does not add up.
            due = max(due + options.interval_s(), loop.time())
            await asyncio.wait({stopped}, timeout=due - loop.time())
            if stopped.done():
                return 0
    finally:
        stopped.cancel()
        await probe.close()


def _say(call: ProgramContext, report: GpuReport, before: str) -> str:
    """Print the line if the GPUs are known, and why there are none or they are not known; returns the latter."""
    if report.known:
        call.write(format_line(report, call.env.get("LSF_RESOURCES", "")))
        call.flush()
    complaint = "" if report.gpus else f"elim.gpu: {'no GPUs' if report.known else 'GPUs unknown'}: {report.reason}\n"
    if complaint != before and report.reason:
        call.error(complaint)
    return complaint


def _seconds(text: str, origin: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.01 <= value <= 86_400:
        raise BadRequest(f"elim.gpu: {origin}: '{text}' is not a number of seconds from 0.01 to 86400")
    return value
