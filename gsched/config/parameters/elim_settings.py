"""What elims are started with (ELIMARGS); how those are dealt with that say nothing (LSF_ELIM_BLOCKTIME and its kin).

Source: lsf.cluster(5), section Parameters. lsf.conf may say of silence the same, since those names are of its kind; not
both.
"""

from __future__ import annotations

import shlex

import msgspec

from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import Findings, SourcePlace, show
from gsched.config.grammar.values import KeyValues, command_line, integer, yes_or_no
from gsched.model.config import Timing

_NAMES = ("LSF_ELIM_BLOCKTIME", "LSF_ELIM_DEBUG", "LSF_ELIM_RESTARTS")


class Elims(msgspec.Struct):
    """What one file says of elims, and where."""

    block_s: float | None = None
    debug: bool = False
    restarts: int | None = None
    arguments: tuple[str, ...] = ()
    """Of lsf.cluster alone."""
    places: dict[str, SourcePlace] = msgspec.field(default_factory=dict)


def read_elims(settings: KeyValues, before: Elims | None = None) -> Elims:
    """The settings of one file; `before`: what an earlier section of it says."""
    before = before or Elims()
    return Elims(
        block_s=settings.take("LSF_ELIM_BLOCKTIME", integer(1, 86_400), before.block_s),
        debug=settings.take("LSF_ELIM_DEBUG", yes_or_no, before.debug),
        restarts=settings.take("LSF_ELIM_RESTARTS", integer(0, 1_000_000), before.restarts),
        arguments=before.arguments,
        places=before.places | {name: at for name in _NAMES if (at := settings.place(name)) is not None},
    )


def read_elim_arguments(settings: KeyValues, elims: Elims) -> Elims:
    """With what ELIMARGS says, which stands in lsf.cluster alone."""
    return msgspec.structs.replace(elims, arguments=settings.take("ELIMARGS", _arguments, elims.arguments))


def _arguments(text: str) -> tuple[str, ...]:
    """The words of a command line, in quotes where a shell needs them."""
    try:
        return tuple(shlex.split(command_line(text)))
    except ValueError as problem:
        raise BadRequest(f"'{show(text)}' cannot be split into words: {problem}") from None


def joined_elims(conf: Elims, cluster: Elims, findings: Findings) -> Elims:
    """What lsf.conf and lsf.cluster say of elims together."""
    for name in conf.places.keys() & cluster.places.keys():
        findings.error(cluster.places[name], f"{name} is set in lsf.conf too, at {conf.places[name]}")
    both = Elims(
        block_s=cluster.block_s or conf.block_s,
        debug=cluster.debug or conf.debug,
        restarts=conf.restarts if cluster.restarts is None else cluster.restarts,
        arguments=cluster.arguments,
        places=conf.places | cluster.places,
    )
    at = both.places.get("LSF_ELIM_RESTARTS")
    if at is not None and not (both.block_s or both.debug):
        findings.note(at, "LSF_ELIM_RESTARTS has no effect without LSF_ELIM_BLOCKTIME or LSF_ELIM_DEBUG, as in LSF")
        both.restarts = None
    return both


def with_elims(timing: Timing, elims: Elims) -> Timing:
    """The intervals with what is said of elims."""
    return msgspec.structs.replace(
        timing,
        elim_block_s=elims.block_s,
        elim_restarts=elims.restarts,
        elim_debug=elims.debug,
        elim_arguments=elims.arguments,
    )
