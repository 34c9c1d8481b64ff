"""The unit of a size that a caller writes without one, and requirements whose sizes have theirs.

Reads one line of lsf.conf, and only of the caller's cluster; a file that cannot be read says nothing. It must import
nothing heavy: most commands ask for the unit, few read requirements.
"""

from __future__ import annotations

from gsched.base.envdir import read_setting
from gsched.base.errors import BadRequest, PermissionDenied
from gsched.base.units import unit_letter
from gsched.cli.session.call import Call
from gsched.cli.session.master_links import folder_of

UNIT_VARIABLE = "LSF_UNIT_FOR_LIMITS"
DEFAULT_UNIT = "MB"


def configured_unit(call: Call) -> str:
    """LSF_UNIT_FOR_LIMITS as the environment or lsf.conf has it; MB where nobody says."""
    return call.env.get(UNIT_VARIABLE, "") or _of_cluster(call) or DEFAULT_UNIT


def unit_of(call: Call) -> str:
    """The letter of the unit that a size without one has in this call. Raises BadRequest for a unit that is none."""
    return unit_letter(configured_unit(call))


def requirement_in(call: Call, text: str) -> str:
    """What -R says, its sizes with their unit. Raises RequirementError."""
    unit = unit_of(call)
    if not text or unit == "M":
        return text
    from gsched.resreq.parsing.syntax import with_unit  # only now: the language takes long to import

    return with_unit(text, unit)


def _of_cluster(call: Call) -> str:
    try:
        return read_setting(folder_of(call), UNIT_VARIABLE)
    except (BadRequest, PermissionDenied):
        return ""
