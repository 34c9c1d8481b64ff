"""Jobs of one submission that are alike but for texts of their own are judged once: those of a sweep, each of which has
a name and an output file.

Only what no judgement reads is a text of their own; of such a text its size and characters are checked for each job.
It lives as long as its submission is judged by one configuration, and must never be used beyond it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gsched.core.records.spec_interning import fingerprint
from gsched.core.submission.spec_sizes import check_form
from gsched.model.jobs.job import JobSpec

OWN_TEXTS = (
    *("command", "name", "description", "input_file", "output_file", "error_file"),
    *("environment", "script", "spooled_input"),
)
"""Fields of which a judgement knows at the most whether they are there."""
_THERE = "x"


class AlikeJobs:
    """The kinds of a submission's jobs."""

    def __init__(self, admit: Callable[[JobSpec], JobSpec]) -> None:
        self._admit = admit
        self._kinds: dict[bytes, JobSpec] = {}
        """What is alike of a kind's jobs -> the first of them, completed."""

    def admitted(self, spec: JobSpec) -> tuple[JobSpec, bool]:
        """The completed spec, and whether it is the first of its kind. Raises what `admit` raises."""
        own = {name: text for name in OWN_TEXTS if (text := getattr(spec, name))}
        key = fingerprint(msgspec.structs.replace(spec, **dict.fromkeys(own, _THERE)))
        first = self._kinds.get(key)
        if first is None:
            found = self._kinds[key] = self._admit(spec)
            return found, True
        check_form(spec, OWN_TEXTS)
        return msgspec.structs.replace(first, **own), False
