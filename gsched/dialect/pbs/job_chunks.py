"""The chunks of a job that was submitted, by whatever command: what PBS's users see, and what its agent counts by."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gsched.dialect.pbs.chunk_lists import Chunk
from gsched.dialect.pbs.resource_lists import read_resources
from gsched.dialect.slurm.gnu_options import GivenOption
from gsched.model.jobs.job import PBS, JobSpec


def said_of(spec: JobSpec) -> Mapping[str, str]:
    """Resource -> value, as -l of qsub said it; empty for a job that was submitted otherwise."""
    if spec.front_end != PBS:
        return {}
    return {name: value for name, _, value in (word.partition("=") for word in spec.front_end_words)}


def chunks_of(spec: JobSpec) -> tuple[Chunk, ...]:
    """Those of -l; of a job that was submitted otherwise its slots, one by one or by its span.

    Raises BadRequest.
    """
    if spec.front_end == PBS:
        words = [GivenOption("l", word, "-l") for word in spec.front_end_words]
        return read_resources(words).chunks
    each = _together(spec)
    return (Chunk(spec.slots // each or 1, each, each, ngpus=_gpus(spec)),)


def _together(spec: JobSpec) -> int:
    """How many slots lie together on a host for certain."""
    found = re.search(r"span\[(?:(hosts=1)|(?:ptile|block)=([0-9]{1,6}))", spec.res_req)
    if found is None:
        return 1
    each = spec.slots if found[1] else int(found[2])
    return each if each and not spec.slots % each else 1


def _gpus(spec: JobSpec) -> int:
    found = re.search(r"num=([0-9]{1,4})(?:[:/]|$)", spec.gpu_req)
    return int(found[1]) if found is not None else 0
