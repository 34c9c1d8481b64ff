"""Requirements as people read them: with -gpu as LSF writes it, sizes in the unit of their cluster."""

from __future__ import annotations

from gsched.base.errors import RequirementError


def shown_with_gpus(text: str, gpu: str, *, is_effective: bool = False) -> str:
    """A combined requirement as LSF shows it for a job with -gpu."""
    if not gpu:
        return text
    from gsched.resreq.combining.shown_requirement import with_gpus  # only now: the language takes long to import

    return with_gpus(text, gpu, is_effective=is_effective)


def shown_in(unit: str, text: str) -> str:
    """A combined requirement, whose sizes are MiB, with sizes in `unit`, a letter, as that cluster's users read them.

    A text that cannot be read is given back as it is.
    """
    if not text or unit == "M":
        return text
    from gsched.resreq.parsing.syntax import in_unit  # only now, as above

    try:
        return in_unit(text, unit)
    except RequirementError:
        return text
