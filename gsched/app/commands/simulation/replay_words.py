"""`gsched sim --history STATE` without a cluster: what a master has decided is decided once more, and compared."""

from __future__ import annotations

from dataclasses import asdict

import click

from gsched.app.commands.simulation.progress_line import ProgressLine
from gsched.app.commands.simulation.table_files import json_text
from gsched.base.ids import show_job
from gsched.base.moments import shown_utc
from gsched.cli.render.text.text_columns import printable
from gsched.sim.history.decision_replay import DecisionDeviation, DecisionReplay, replay_decisions

MOST_SHOWN = 20
"""Deviations in text; JSON has all."""


def replay_history(history: str, since: float | None, until: float | None, *, as_json: bool, progress: bool) -> None:
    """Decide it again and print what comes of it. Raises as `replay_decisions`."""
    with ProgressLine(always=progress) as line:
        found = replay_decisions(history, since, until, line.show_replayed)
    for note in found.notes:
        click.echo(f"note: {printable(note)}", err=True)
    if as_json:
        told = [{**asdict(each), "job": show_job(each.job_id)} for each in found.deviations]
        summary = {name: value for name, value in asdict(found).items() if name not in ("deviations", "notes")}
        summary["deviation"] = len(told)
        click.echo(json_text({"replay": summary, "notes": found.notes, "deviations": told}), nl=False)
    else:
        click.echo(_text(found), nl=False)


def _text(found: DecisionReplay) -> str:
    lines = [
        ("From", shown_utc(found.since)),
        ("To", shown_utc(found.until)),
        ("Starts decided again", str(found.starts)),
        ("On the same hosts and GPUs", str(found.same_place)),
    ]
    if found.by_load:
        lines.append(("Decided by the load of hosts", str(found.by_load)))
    if found.by_hand:
        lines.append(("Started by hand", str(found.by_hand)))
    if found.preemptions:
        lines.append(("Preemptions decided again", str(found.preemptions)))
    lines.append(("Deviation", str(len(found.deviations))))
    text = "".join(f"{label:<30}{value}\n" for label, value in lines)
    shown = [_deviation(each) for each in found.deviations[:MOST_SHOWN]]
    more = len(found.deviations) - len(shown)
    return text + ("\n" if shown else "") + "".join(shown) + (f"... and {more} more: --json has all\n" if more else "")


def _deviation(each: DecisionDeviation) -> str:
    why = f": {each.why}" if each.why else ""
    return printable(f"Job {show_job(each.job_id)}, {shown_utc(each.at)}: then {each.then}, now {each.now}{why}") + "\n"
