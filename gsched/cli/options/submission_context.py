"""What the options of gsub and gmod are read against: the caller's directory, time, zone, home and file of notices, and
the cluster's unit of sizes.
"""

from __future__ import annotations

import time
from functools import partial

from gsched.base.envdir import home_of
from gsched.base.errors import BadRequest
from gsched.cli.options.size_units import configured_unit
from gsched.cli.session.call import Call
from gsched.cli.session.time_zone import zone_of
from gsched.dialect.notify import NotifyFile, is_missing, path_of
from gsched.dialect.spec_values import ValueContext


def value_context(call: Call) -> ValueContext:
    """Where a submission comes from, as of the call. A size limit without a unit is in LSF_UNIT_FOR_LIMITS, MB where
    nobody says.
    """
    return ValueContext(
        cwd=call.cwd,
        now=time.time(),
        zone=zone_of(call.env),
        unit=configured_unit(call),
        home=home_of(call.uid, call.env),
        notify_file=partial(_notify_file, call),
        host_file=partial(_host_file, call),
    )


def _host_file(call: Call, path: str) -> str:
    """A file of the caller's. Raises BadRequest where it cannot be read."""
    try:
        return call.read_file(path).decode("utf-8", "replace")
    except OSError as error:
        raise BadRequest(f"-hostfile {path[:60]}: {error.strerror}") from None


def _notify_file(call: Call) -> NotifyFile | None:
    """The caller's ~/.gsched/notify; None where there is none. Raises BadRequest where it cannot be read."""
    path = path_of(call.env, home_of(call.uid, call.env))
    if not path:
        return None
    try:
        data, mode = call.read_file_and_mode(path)
    except BrokenPipeError:
        raise
    except OSError as error:
        if is_missing(error, call.env):
            return None
        raise BadRequest(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise BadRequest(f"{path}: cannot be read: {error}") from None
    return NotifyFile(path, data, mode)
