"""The names by which a host's type goes: LINUX, and what LSF calls Linux on its machine (X86_64, LINUX64 ...).

A comparison of `type` holds for any of them. It knows no host: whoever keeps hosts' values says what each goes by.
Source: HostType of LSF's lsf.shared.
"""

from __future__ import annotations

LINUX = "LINUX"
TYPE_NAMES = "type/names"
"""Under this name a host's values have the names of its type, joined by blanks. No resource can be called so."""

_OF_MACHINE = {
    "x86_64": ("X86_64", "LINUX64"),
    "aarch64": ("LINUX_ARM64", "AARCH64"),
    "ppc64le": ("LINUXPPC64LE", "IBMPPC64LE"),
    "ppc64": ("LINUXPPC64",),
    "i686": ("LINUX86",),
}
LINUX_TYPES = frozenset(name for names in _OF_MACHINE.values() for name in names)
"""What LSF calls Linux on the machines that it knows."""


def type_names(shown: str, machine: str) -> tuple[str, ...]:
    """All names of the type of a host: the one that is shown, and of Linux those that it has in LSF.

    A type that is configured keeps to itself but for LINUX; one that is found out goes by all names of its machine.
    """
    if shown == LINUX:
        return (LINUX, *_OF_MACHINE.get(machine, ()))
    return (shown, LINUX) if shown in LINUX_TYPES else (shown,)
