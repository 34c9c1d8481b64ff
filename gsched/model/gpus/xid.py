"""XIDs: what the NVIDIA driver calls an error of a GPU, by number; which of them mean that the GPU itself has failed.

Source: NVIDIA's Xid catalogue ("Analyzing Xid Errors with the Xid Catalog", XIDs 1 to 172) in its version of 29 October
2025. Fatal is what has RESET_GPU, RESTART_VM or RESTART_BM for its immediate action there, and two that have a workflow
instead, which may end in a reset: 48 (a memory error that cannot be corrected) and 74 (NVLink). The workflow of 144 to
150 (NVLink 5) goes by further words of the log, which NVML does not tell: they are not fatal by themselves, and where
one needs a reset the driver says so by its recovery action. Not fatal is what is unused, has no action or means that
the application is to be restarted: most of that comes from the program's own mistakes.
"""

from __future__ import annotations

from gsched.base.coded_text import AnyText, CodedText, coded
from gsched.base.sentences import SENTENCES

RESET_XIDS: frozenset[int] = frozenset(
    {46, 62, 64, 79, 95, 109, 110, 119, 120, 136, 140, 143, 151, 155, 156, 158},
)
"""Those after which the GPU has to be reset, or its machine restarted: it does not become well by itself."""

FATAL_XIDS: tuple[int, ...] = tuple(sorted(RESET_XIDS | {48, 74}))
"""GPU_FATAL_XIDS where a cluster says nothing."""

CONTAINED_XIDS: frozenset[int] = frozenset({63, 94})
"""Memory errors that the GPU has dealt with by itself: the program that met one ends, nothing else is harmed."""


OF_THE_DEVICE: frozenset[int] = CONTAINED_XIDS.union(FATAL_XIDS)
"""Those that the program that met one has not brought about."""


def xids_in(text: AnyText) -> tuple[int, ...]:
    """The numbers of the XIDs that the text is about (see describe_xid)."""
    if isinstance(text, str):
        return ()
    if text.code in ("xid.described", "xid.unknown"):
        return tuple(value for value in text.values[:1] if isinstance(value, int))
    return tuple(number for value in text.values if isinstance(value, CodedText) for number in xids_in(value))


def describe_xid(number: int) -> CodedText:
    """`XID 79 (it has fallen off the bus)`; the number alone where there are no words for it."""
    code = f"xid.{number}"
    return coded("xid.described", number, coded(code)) if code in SENTENCES else coded("xid.unknown", number)
