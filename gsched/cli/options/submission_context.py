"""What the options of gsub and gmod are read against: the caller's directory, time, zone, and the cluster's unit."""

from __future__ import annotations

import time

from gsched.cli.options.size_units import configured_unit
from gsched.cli.session.call import Call
from gsched.cli.session.time_zone import zone_of
from gsched.dialect.spec_values import ValueContext


def surroundings(call: Call) -> ValueContext:
    """Those of the call. A size limit without a unit is in LSF_UNIT_FOR_LIMITS, MB where nobody says."""
    return ValueContext(cwd=call.cwd, now=time.time(), zone=zone_of(call.env), unit=configured_unit(call))
