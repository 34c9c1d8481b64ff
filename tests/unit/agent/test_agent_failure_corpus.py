"""The corpus of real ends of jobs' outputs: how well the classes are told, as docs/failures.md says."""

from __future__ import annotations

from pathlib import Path

import pytest

from gsched.model.jobs.failure import FailureClass
from tests.support.failure_corpus import Tail, scores, table, tails, told

ROOT = Path(__file__).parents[3]
MISSED = {"https://github.com/NVIDIA/nccl/issues/1284"}
"""What is taken for something else: an exception that follows from the time-out before it."""


@pytest.mark.parametrize("tail", tails(), ids=lambda tail: tail.source[-60:])
def test_the_class_is_told(tail: Tail) -> None:
    assert (told(tail) == tail.kind) != any(source in tail.source for source in MISSED), told(tail)


def test_the_corpus_is_of_public_reports_and_knows_its_classes() -> None:
    found = tails()
    assert all(tail.source.startswith(("# https://github.com/", "# Written for this corpus")) for tail in found)
    assert {tail.kind for tail in found} <= {*FailureClass, "-"}
    public = [tail for tail in found if "https://" in tail.source]
    assert len(public) >= 70 and sum(tail.innocent for tail in found) >= 15
    assert all(max(len(line) for line in tail.text.splitlines()) < 400 for tail in found)


def test_what_a_queue_may_retry_is_told_precisely() -> None:
    for kind, score in scores().items():
        assert score.precision >= 0.95 and score.recall >= 0.75, kind
    assert scores()["gpu_busy"].precision == 1.0


def test_the_documents_say_how_good_it_is_and_what_the_classes_are() -> None:
    text = (ROOT / "docs/failures.md").read_text()
    assert table() in text
    listed = [line.split("`")[1] for line in text.splitlines() if line.startswith("| `") and " | " in line]
    assert set(FailureClass) <= set(listed)
