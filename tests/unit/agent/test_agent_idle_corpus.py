"""The corpus of curves of GPUs: how well the kinds of idleness are told, as docs/gpu-idle.md says."""

from __future__ import annotations

from pathlib import Path

import pytest

from gsched.model.gpus.gpu_idle import IdleKind
from tests.support.idle_corpus import INNOCENT, Curve, curves, scores, table, told

ROOT = Path(__file__).parents[3]
MISTAKEN = {
    "answers_a_request_a_minute_without_process_figures": "stopped",
    "learns_with_a_tiny_network": "held",
    "idle_on_a_part_of_a_gpu": INNOCENT,
    "hangs_on_a_small_card": INNOCENT,
    "keeps_it_busy": INNOCENT,
}
"""What is taken for something else, and for what; docs/gpu-idle.md says why."""


@pytest.mark.parametrize("curve", curves(), ids=lambda curve: curve.name)
def test_the_kind_is_told(curve: Curve) -> None:
    assert told(curve) == MISTAKEN.get(curve.name, curve.kind)


def test_the_corpus_is_of_forty_curves_half_of_them_innocent() -> None:
    found = curves()
    assert len({curve.name for curve in found}) == len(found) == 40
    assert sum(curve.kind == INNOCENT for curve in found) == 20
    assert {curve.kind for curve in found} == {*IdleKind, INNOCENT}
    assert all(curve.source.startswith(("https://github.com/", "Written for this corpus")) for curve in found)
    assert sum("https://" in curve.source for curve in found) >= 20


def test_who_is_warned_deserves_it_almost_always() -> None:
    assert scores()["idle"].precision >= 0.85 and scores()["idle"].recall >= 0.8
    # What is not the job's fault, or not worth a word, never counts: pauses, data, checkpoints, holes.
    assert MISTAKEN.keys() == {curve.name for curve in curves() if told(curve) != curve.kind}


def test_the_documents_say_how_good_it_is() -> None:
    assert table() in (ROOT / "docs/gpu-idle.md").read_text()
