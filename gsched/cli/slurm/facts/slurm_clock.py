"""Times as Slurm's commands print them, in the caller's zone and form (SLURM_TIME_FORMAT).

Source: squeue(1), SLURM_TIME_FORMAT, and sacct(1), "Job Accounting Fields", of Slurm 22.05.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from gsched.cli.session.call import Call
from gsched.cli.session.time_zone import zone_of

_STANDARD = "%Y-%m-%dT%H:%M:%S"
_LONGEST_FORM = 100


@dataclass(frozen=True, slots=True)
class SlurmClock:
    """Now, and how the caller wants to read times. `form`: empty for Slurm's own, `relative`, or one of strftime(3)."""

    now: float
    zone: tzinfo
    form: str = ""

    @staticmethod
    def unused() -> SlurmClock:
        """For facts that no time has to do with."""
        return SlurmClock(0.0, UTC)

    def moment(self, at: float | None, unknown: str = "Unknown") -> str:
        """A time, UTC seconds; of one that is not known the given word."""
        if at is None:
            return unknown
        local = datetime.fromtimestamp(at, self.zone)
        if self.form == "relative":
            return self._relative(local)
        return local.strftime(self.form or _STANDARD)

    def _relative(self, local: datetime) -> str:
        """As people say it: the day only where it is not today, the clock only where it is near."""
        today = datetime.fromtimestamp(self.now, self.zone).date()
        near = {-1: "Ystday", 0: "", 1: "Tomorr"}
        away = (local.date() - today) // timedelta(days=1)
        if away in near:
            return f"{near[away]} {local:%H:%M:%S}".strip() if not near[away] else f"{near[away]} {local:%H:%M}"
        if abs(away) < 7:
            return f"{local:%a %H:%M}"
        return f"{local:%d %b %H:%M}" if abs(away) < 180 else f"{local:%d %b %Y}"


def clock_of(call: Call) -> SlurmClock:
    """The caller's clock; a form that means nothing is Slurm's own."""
    form = call.env.get("SLURM_TIME_FORMAT", "")
    if form == "standard" or len(form) > _LONGEST_FORM or not form.isprintable():
        form = ""
    return SlurmClock(time.time(), zone_of(call.env), form)


def long_duration(seconds: float) -> str:
    """`[DAYS-]HH:MM:SS`, as sacct and scontrol write it."""
    minutes, second = divmod(int(max(0.0, seconds)), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"{f'{days}-' if days else ''}{hour:02}:{minute:02}:{second:02}"


def cpu_duration(seconds: float) -> str:
    """CPU time: `MM:SS.mmm`, from an hour on as any other duration."""
    if seconds >= 3600:
        return long_duration(seconds)
    milliseconds = round(max(0.0, seconds) * 1000)
    minutes, left = divmod(milliseconds, 60_000)
    return f"{minutes:02}:{left // 1000:02}.{left % 1000:03}"
