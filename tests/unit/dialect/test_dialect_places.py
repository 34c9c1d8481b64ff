"""Which lines of a script are named when the master finds fields wrong that its options set."""

from __future__ import annotations

from datetime import UTC

import pytest

from gsched.dialect.bsub import ParsedSubmission, read_submission
from gsched.dialect.bsub_options import BSUB
from gsched.dialect.spec_values import _OPTIONS_OF_FIELDS, ValueContext
from gsched.model.jobs.job import JobSpec

SCRIPT = b"""#!/bin/sh
#BSUB -q night -R "select[mem>1]"
#BSUB -R "rusage[mem=1]" -M 100
#BSUB -gpu num=1
true
"""


def submission(*words: str, script: bytes = SCRIPT) -> ParsedSubmission:
    return read_submission(
        words,
        read_stdin=lambda: script,
        read_file=lambda path: b"",
        env={},
        around=ValueContext(cwd="/", now=0.0, zone=UTC),
    )


@pytest.mark.parametrize(
    ("words", "about", "place"),
    [
        ((), ("queue",), "line 2 of the script: "),
        ((), ("limits.MEMLIMIT",), "line 3 of the script: "),
        ((), ("res_req",), "lines 2 and 3 of the script: "),
        ((), ("gpu_req",), "line 4 of the script: "),
        ((), ("project",), ""),
        ((), ("nonsense", ""), ""),
        ((), (), ""),
        (("-q", "day"), ("queue",), ""),
        (("-R", "select[ut<1]"), ("res_req", "gpu_req"), ""),
    ],
)
def test_the_lines_that_set_the_fields_are_named(words: tuple[str, ...], about: tuple[str, ...], place: str) -> None:
    assert submission(*words).refused(about, "so it is") == f"{place}so it is. Job not submitted."


def test_every_field_has_options_that_exist() -> None:
    fields = {*JobSpec.__struct_fields__}
    for name, options in _OPTIONS_OF_FIELDS.items():
        assert name.startswith("limits.") or name in fields
        assert all(BSUB.option(option) for option in options)
