"""What qalter's options change of a job: the same values as of qsub, over what the job was submitted with.

Whether a started job may still be changed is the master's to say. Source: qalter(1B) of OpenPBS 23.
"""

from __future__ import annotations

from collections.abc import Sequence

from gsched.dialect.pbs.job_chunks import said_of
from gsched.dialect.pbs.job_files import files_of
from gsched.dialect.pbs.qsub_fields import QsubReading, file_places, plain_fields
from gsched.dialect.pbs.resource_lists import LIMIT_NAMES, read_resources
from gsched.dialect.slurm.gnu_options import GivenOption, GnuWords
from gsched.dialect.spec_values import SpecValues
from gsched.model.jobs.job import JobSpec

_FILES = ("o", "e", "j", "k", "R")
_SHAPED = ("slots", "res_req", "gpu_req", "exclusive")
_NOTHING = {"res_req": "", "gpu_req": "", "exclusive": False}


def changed_fields(words: GnuWords, spec: JobSpec, reading: QsubReading) -> SpecValues:
    """Fields of a JobSpec and their new values, but for those of -W. `reading`: as of where it was submitted.

    Raises BadRequest.
    """
    values = plain_fields(GnuWords(tuple(each for each in words.given if each.name != "h")), reading)
    given = [each for each in words.given if each.name == "l"]
    if given:
        values |= _resources(given, spec)
    if words.has(*_FILES):
        values |= _files(words, spec, reading)
    return values


def _resources(given: Sequence[GivenOption], spec: JobSpec) -> SpecValues:
    """What is named takes the place of what was said before; the rest stays."""
    named = {name for word in read_resources(given).said for name in [word.partition("=")[0]]}
    before = [GivenOption("l", f"{name}={value}", "-l", 1) for name, value in said_of(spec).items()]
    asked = read_resources([*before, *given])
    values: SpecValues = {}
    if named - LIMIT_NAMES:
        values = {name: asked.values.get(name, _NOTHING.get(name)) for name in _SHAPED}
        values["front_end_words"] = asked.said
    if "walltime" in named:
        values["run_limit_s"] = asked.values["run_limit_s"]
    if named & (LIMIT_NAMES - {"walltime"}):
        values["limits"] = {**spec.limits, **asked.values["limits"]}
    return values


def _files(words: GnuWords, spec: JobSpec, reading: QsubReading) -> SpecValues:
    known = {"o": spec.output_file, "e": spec.error_file, "j": "" if spec.error_file else "oe"}
    kept = [
        GivenOption(name, value, f"-{name}")
        for name, value in known.items()
        if value and not words.has(name) and not (name in "oe" and words.has("k"))
    ]
    places = file_places(reading, words.value("N", spec.name), bool(spec.indices), spec.index_shift)
    return files_of(GnuWords((*kept, *words.given)), places)
