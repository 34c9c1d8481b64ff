"""`gapp` (bapp): application profiles. Source of the layouts: bapp(1) of LSF 10.1."""

from __future__ import annotations

from collections.abc import Iterable

from gsched.cli.render.text.limit_lines import limit_tables
from gsched.cli.render.text.text_columns import cell, left, printable
from gsched.model.views.catalogue import ApplicationView

_ORDER = (
    *("TASKLIMIT", "RUNTIME", "RES_REQ", "GPU_REQ", "RERUNNABLE", "REQUEUE_EXIT_VALUES", "MAX_JOB_REQUEUE"),
    *("PRE_EXEC", "POST_EXEC", "JOB_STARTER", "CONTAINER"),
)
"""Of the parameters: on the wire they have none."""
_SEPARATOR = "-" * 79 + "\n\n"


def render_applications(profiles: Iterable[ApplicationView], *, wide: bool = False) -> str:
    """A line per profile; counts are slots."""
    lines = [f"{'APP_NAME':<15} {'NJOBS':>8} {'PEND':>8} {'RUN':>8} {'SUSP':>8}\n"]
    for each in profiles:
        name = left(each.name, 15) if wide else cell(each.name, 15)
        lines.append(f"{name} {_njobs(each):8d} {each.pend:8d} {each.run:8d} {each.ssusp + each.ususp:8d}\n")
    return "".join(lines)


def _njobs(profile: ApplicationView) -> int:
    return profile.pend + profile.run + profile.ssusp + profile.ususp + profile.rsv


def render_applications_long(profiles: Iterable[ApplicationView]) -> str:
    """-l: a record per profile, a line of dashes between them."""
    return _SEPARATOR.join(_record(each) for each in profiles)


def _record(profile: ApplicationView) -> str:
    counts = (_njobs(profile), profile.pend, profile.run, profile.ssusp, profile.ususp, profile.rsv)
    titles = ("NJOBS", "PEND", "RUN", "SSUSP", "USUSP", "RSV")
    parts = [
        f"\nAPPLICATION NAME: {printable(profile.name)}\n",
        f" -- {printable(profile.description) or 'No description provided.'}\n\n",
        "STATISTICS:\n" + "".join(f"{title:>8} " for title in titles).rstrip() + "\n",
        "".join(f"{count:8d} " for count in counts).rstrip() + "\n\nPARAMETERS:\n",
    ]
    times = {"CPULIMIT": profile.limits.get("CPULIMIT"), "RUNLIMIT": profile.run_limit_s}
    parts += [table + "\n" for table in limit_tables(times, profile.limits)]
    names = (*(name for name in _ORDER if name in profile.facts), *sorted(profile.facts.keys() - set(_ORDER)))
    parts += [f"{name}: {printable(profile.facts[name])}\n" for name in names]
    return "".join(parts)
