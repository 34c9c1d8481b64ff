"""`gadmin check-store`: what is whole is said to be whole, and each kind of damage is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from store_samples import SPEC, noted, submitted
from stores import StoreAtHand

from gsched.app.clusters.store_checks import check_store
from gsched.store.eventlog import EventLog, blob_id
from tests.support.manual_clock import ManualClock

SCRIPT = b"#!/bin/sh\ntrue\n"


def said_of(store: StoreAtHand) -> tuple[bool, list[str]]:
    lines: list[str] = []
    config: Any = SimpleNamespace(locations=SimpleNamespace(store_place=store.place))
    return check_store(config, lines.append), lines


def fill(log: EventLog) -> None:
    log.append([submitted(number) for number in range(1, 6)], blobs={blob_id(SCRIPT): SCRIPT})
    log.put_part(b"of a checkpoint that was never finished")
    log.append([noted(1), noted(1), noted(2)])


def test_a_store_that_is_whole(store: StoreAtHand) -> None:
    log = store.open(clock=ManualClock(5.0))
    fill(log)
    is_well, lines = said_of(store)
    log.close()
    assert is_well and lines == [f"the store {log.name}: 8 events, all is well"]


@pytest.mark.parametrize(
    ("statement", "values", "told"),
    [
        ("delete from event where seq = 3", (), "record 3 is missing"),
        ("update event set payload = ? where seq = 6", (b"{",), "job 1 is set aside: record 6 (job_noted) cannot be"),
        ("update blob set data = ? where id >= 'P' and id < 'Q'", (b"x",), " is not what was stored"),
        (
            "update blob set data = ? where id < 'P' or id > 'Q'",
            (b"x",),
            f"blob {blob_id(SCRIPT)} is not what was stored",
        ),
    ],
)
def test_what_is_wrong_is_told(store: StoreAtHand, statement: str, values: tuple[object, ...], told: str) -> None:
    log = store.open()
    fill(log)
    log.close()
    store.damage(statement, *values)
    is_well, lines = said_of(store)
    assert not is_well
    assert any(line.startswith("attention: ") and told in line for line in lines), lines
    assert "problems" in lines[-1] and SPEC.command not in "".join(lines)


def test_an_event_that_does_not_fit_is_told(store: StoreAtHand) -> None:
    log = store.open()
    fill(log)
    log.append([noted(77)])
    log.close()
    is_well, lines = said_of(store)
    assert not is_well
    assert [line.partition(" is set aside")[0] for line in lines[:-1]] == ["attention: job 77"]
