"""bsub -nnodes: so many hosts, with the slots of -n spread over them."""

from __future__ import annotations

from datetime import UTC

import pytest

from gsched.base.errors import BadRequest
from gsched.dialect.bsub_options import BSUB
from gsched.dialect.spec_values import ValueContext, spec_values

AROUND = ValueContext(cwd="/w", now=1e9, zone=UTC)


def read(*words: str) -> tuple[object, object]:
    values = spec_values(BSUB.read(words), AROUND)
    return values["slots"], values.get("res_req", "")


@pytest.mark.parametrize(
    ("words", "slots", "requirement"),
    [
        (["-nnodes", "1"], 1, ""),
        (["-nnodes", "1", "-n", "8"], 8, "span[hosts=1]"),
        (["-nnodes", "3"], 3, "span[ptile=1]"),
        (["-nnodes", "2", "-n", "8"], 8, "span[ptile=4]"),
        (["-n", "5", "-nnodes", "2"], 5, "span[ptile=3]"),
    ],
)
def test_the_slots_are_spread_over_the_hosts(words, slots, requirement):
    assert read(*words) == (slots, requirement)


def test_other_requirements_stay():
    assert read("-nnodes", "2", "-R", "rusage[mem=100]") == (2, "rusage[mem=100] span[ptile=1]")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["-nnodes", "0"], "-nnodes: '0' is not a number of hosts"),
        (["-nnodes", "two"], "-nnodes: 'two' is not a number of hosts"),
        (["-nnodes", "4", "-n", "5"], "5 slots (-n) cannot be spread evenly over 4 hosts"),
        (["-nnodes", "2", "-n", "1"], "1 slots (-n) cannot be spread evenly over 2 hosts"),
        (["-nnodes", "2", "-n", "2,4"], "-n gives a range"),
    ],
)
def test_what_cannot_be_is_refused(words, complaint):
    with pytest.raises(BadRequest) as caught:
        read(*words)
    assert complaint in caught.value.text
