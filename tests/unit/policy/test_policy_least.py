"""The least key, however keys change between two questions, is the one that a look at all of them finds."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.policy.match.least_row import Least
from tests.support.property_examples import examples

KEYS = st.sampled_from([float("-inf"), -1.5, 0.0, 1.0, 2.0, 3.0, float("inf")])


def by_looking(keys: np.ndarray) -> int | None:  # type: ignore[type-arg]
    row = int(keys.argmin())
    return None if keys[row] == np.inf else row


@settings(max_examples=examples(10), deadline=None)
@given(st.integers(0, 10**6), st.integers(300, 1500), st.integers(1, 400))
def test_so_it_is_over_many_rows_that_are_used_up(seed: int, size: int, values: int) -> None:
    rng = random.Random(seed)
    keys = np.array([float(rng.randrange(values)) for _ in range(size)])
    least = Least(keys)
    for _ in range(size):
        row = least.row()
        assert row == by_looking(keys)
        if row is None:
            break
        least.set(row, rng.choice([float("inf"), float(rng.randrange(values)), keys[row] + 0.5]))
        least.set(rng.randrange(size), rng.choice([float("inf"), float(rng.randrange(values))]))
