"""What a job prints, followed: what has gone before it was read is told, and ends it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gsched.base.errors import DamagedData
from gsched.model.views.view import OutputChunk
from gsched.wire.output_following import OutputFollower

GONE = "the output of this job was removed"


def printed(client: object) -> Iterator[OutputChunk]:
    yield OutputChunk(stream="stdout", data=b"half")
    raise DamagedData(GONE)


def test_who_follows_output_that_goes_meanwhile_is_told() -> None:
    unused: Any = None
    told = list(OutputFollower(unused, pause=pytest.fail).of_attempt(7, 1, printed))
    last = f"\n[gsched: {GONE}]\n"
    assert [(each.stream, each.data.decode()) for each in told] == [("stdout", "half"), ("stderr", last)]
