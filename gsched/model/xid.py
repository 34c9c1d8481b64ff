"""XIDs: what the NVIDIA driver calls an error of a GPU, by number; which of them mean that the GPU itself has failed.

Source: NVIDIA's Xid catalogue ("Analyzing Xid Errors with the Xid Catalog"). Those whose immediate action is to reset
the GPU, to restart the machine or to ask support are taken for fatal; those whose action is to restart the
application, or none, are not: most come from the program's own mistakes.
"""

from __future__ import annotations

FATAL_XIDS: tuple[int, ...] = (46, 48, 62, 64, 74, 79, 95, 110, 119, 120, 136, 140, 143)
"""GPU_FATAL_XIDS where a cluster says nothing."""

CONTAINED_XIDS: frozenset[int] = frozenset({63, 94})
"""Memory errors that the GPU has dealt with by itself: the program that met one ends, nothing else is harmed."""

_WORDS: dict[int, str] = {
    8: "the GPU stopped processing",
    13: "a program raised an exception of the graphics engine",
    31: "a program used memory that is not there",
    43: "a program's work was reset",
    45: "a program's work was removed",
    46: "the GPU stopped processing",
    48: "a memory error that cannot be corrected",
    62: "its micro-controller has halted",
    63: "a faulty part of its memory is set aside",
    64: "a faulty part of its memory could not be set aside",
    68: "a program raised an exception of the video engine",
    69: "a program raised an exception of a graphics class",
    74: "an error of its NVLink",
    79: "it has fallen off the bus",
    92: "many corrected memory errors",
    94: "a contained memory error",
    95: "an uncontained memory error",
    109: "a program's turn did not end in time",
    110: "a fault of its security",
    119: "its system processor (GSP) does not answer",
    120: "an error of its system processor (GSP)",
    136: "its link could not be trained",
    137: "a fault of a program's NVLink access",
    140: "a memory error that was not recovered from",
    143: "it could not be initialised",
}


def describe_xid(number: int) -> str:
    """`XID 79 (it has fallen off the bus)`; the number alone where there are no words for it."""
    words = _WORDS.get(number)
    return f"XID {number} ({words})" if words else f"XID {number}"
