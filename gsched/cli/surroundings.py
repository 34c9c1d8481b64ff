"""What the options of gsub and gmod are read against: the caller's directory, time, zone, and the cluster's unit.

Reads one line of lsf.conf, and only of the caller's cluster; a file that cannot be read says nothing.
"""

from __future__ import annotations

import os
import time

from gsched.base.envdir import conf_dir, read_setting
from gsched.base.errors import BadRequest
from gsched.cli.call import Call
from gsched.cli.zone import zone_of
from gsched.dialect.spec_values import Surroundings

UNIT_VARIABLE = "LSF_UNIT_FOR_LIMITS"
DEFAULT_UNIT = "MB"


def surroundings(call: Call) -> Surroundings:
    """Those of the call. A size limit without a unit is in LSF_UNIT_FOR_LIMITS, MB where nobody says."""
    unit = call.env.get(UNIT_VARIABLE, "") or _configured_unit(call) or DEFAULT_UNIT
    return Surroundings(cwd=call.cwd, now=time.time(), zone=zone_of(call.env), unit=unit)


def _configured_unit(call: Call) -> str:
    try:
        return read_setting(os.path.join(call.cwd, conf_dir(call.env)), UNIT_VARIABLE)
    except BadRequest:
        return ""
