"""XIDs: what the NVIDIA driver calls an error of a GPU, by number; which of them mean that the GPU itself has failed.

Source: NVIDIA's Xid catalogue ("Analyzing Xid Errors with the Xid Catalog"). Those whose immediate action is to reset
the GPU, to restart the machine or to ask support are taken for fatal; those whose action is to restart the
application, or none, are not: most come from the program's own mistakes.
"""

from __future__ import annotations

from gsched.base.coded_text import CodedText, coded
from gsched.base.sentences import SENTENCES

FATAL_XIDS: tuple[int, ...] = (46, 48, 62, 64, 74, 79, 95, 110, 119, 120, 136, 140, 143)
"""GPU_FATAL_XIDS where a cluster says nothing."""

CONTAINED_XIDS: frozenset[int] = frozenset({63, 94})
"""Memory errors that the GPU has dealt with by itself: the program that met one ends, nothing else is harmed."""


def describe_xid(number: int) -> CodedText:
    """`XID 79 (it has fallen off the bus)`; the number alone where there are no words for it."""
    code = f"xid.{number}"
    return coded("xid.described", number, coded(code)) if code in SENTENCES else coded("xid.unknown", number)
