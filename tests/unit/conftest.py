"""How unit tests run: without limits of time that a slow machine could miss, and without walking over what stays."""

from __future__ import annotations

import gc

import pytest
from hypothesis import HealthCheck, settings

from tests.support.property_examples import examples, set_rounds

EXAMPLES = 35
"""Of a property that says nothing of them."""


def pytest_configure(config: pytest.Config) -> None:
    set_rounds(config.getoption("--property-rounds"))
    # The parent is what hypothesis takes by itself, which in CI is another one.
    settings.register_profile(
        "gsched",
        settings(),
        max_examples=examples(EXAMPLES),
        deadline=None,
        # By day the same examples everywhere: what is new is found at night, and not by somebody who tries gsched.
        derandomize=config.getoption("--property-rounds") == 1,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("gsched")


def pytest_collection(session: pytest.Session) -> None:
    """Thousands of tests and modules are made, and hardly anything of them is garbage."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """They stay to the end: no collection of garbage looks at them again."""
    gc.collect()
    gc.freeze()
    gc.enable()
