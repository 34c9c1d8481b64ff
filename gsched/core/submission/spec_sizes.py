"""Is a spec one that a submission can consist of at all? Sizes and characters; what it means is admission's question.

Every text of a spec is kept in memory and in the store for as long as the job, and shown to everybody.
"""

from __future__ import annotations

from collections.abc import Iterable

from gsched.base.errors import BadRequest
from gsched.model.jobs.job import JobSpec
from gsched.model.jobs.job_plot import check_plots

MOST_TEXT = {"command": 1 << 20, "pre_exec": 1 << 16, "post_exec": 1 << 16, "res_req": 1 << 16, "dependency": 1 << 16}
"""Characters of these fields; of any other SHORT. The language of a requirement has closer limits of its own."""
SHORT = 4096
MOST_WORDS = 10_000
"""Of a field that is a list (-m, -f …)."""
LATEST = 2.5e11
"""No time and no duration of a job is larger, in seconds: people's clocks end with the year 9999."""
LARGEST = 1 << 53
"""No limit is."""
_MOMENTS = ("begin_at", "terminate_at")
"""Times since 1970: clocks show none of before everywhere."""
_WHAT = {"command": "Command line"}


_PLAIN = JobSpec(command="", user="", queue="")


def check_form(spec: JobSpec, names: Iterable[str] = JobSpec.__struct_fields__) -> None:
    """Raise BadRequest for texts and numbers in these fields that no job has."""
    if not spec.command.strip():
        raise BadRequest("No command is specified")
    for name in names:
        value = getattr(spec, name)
        if value is getattr(_PLAIN, name):  # most fields of most jobs say nothing
            continue
        try:
            _check_field(name, value)
            if name == "plots":
                check_plots(spec.plots)
        except BadRequest as error:
            error.about = (name,)
            raise


def _check_field(name: str, value: object) -> None:
    if isinstance(value, str):
        _check_text(name, value)
    elif isinstance(value, tuple):
        _check_list(name, value)
    elif isinstance(value, dict):
        _check_list(name, tuple(value))
        for each, number in value.items():
            _check_number(each, number, LARGEST, least=-LARGEST)
    elif isinstance(value, int | float):
        _check_number(name, value, LATEST, least=0.0 if name in _MOMENTS else -LATEST)


def _check_text(name: str, text: str) -> None:
    most = MOST_TEXT.get(name, SHORT)
    if len(text) > most:
        raise BadRequest(f"{_WHAT.get(name, _shown(name))} too long ({len(text)} characters, at most {most})")
    if "\0" in text:
        raise BadRequest(f"Bad argument: a null character in {_shown(name)}")


def _check_list(name: str, values: Iterable[object]) -> None:
    values = tuple(values)
    if len(values) > MOST_WORDS:
        raise BadRequest(f"Bad argument: {len(values)} values for {_shown(name)}, at most {MOST_WORDS}")
    for value in values:
        if isinstance(value, str):
            _check_text(name, value)


def _check_number(name: str, number: float, most: float, *, least: float) -> None:
    if not least <= number <= most:
        raise BadRequest(f"Bad argument: {_shown(name)} of {number:g}")


def _shown(name: str) -> str:
    return name.replace("_", " ")
