"""The configuration follows the time: where #if time(...) of a file comes out otherwise, the master reads it anew.

As often as EGROUP_UPDATE_INTERVAL says, the program egroup is asked anew for the members of the groups that it lists.
Nothing is applied while nothing has changed. A configuration that is refused then is told in the log, and tried again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from gsched.config.configuration import Loaded, load
from gsched.master.reconfig_notes import fixed
from gsched.model.config import ClusterConfig
from gsched.model.queues.window import is_open, minute_of_week

log = logging.getLogger(__name__)
LOOK_S = 20.0
"""Windows open and close at whole minutes."""


def is_out_of_date(config: ClusterConfig, now: float) -> bool:
    """Whether a condition of its files comes out otherwise now than when they were read."""
    minute = minute_of_week(now)
    return any(is_open(windows, minute) is not held for windows, held in config.time_conditions)


async def follow_time(
    config_now: Callable[[], ClusterConfig], apply: Callable[[Loaded, ClusterConfig], Awaitable[object]]
) -> None:
    """Until it is cancelled: `apply` what the files say as soon as the time changes what they say."""
    told: tuple[str, ...] = ()
    while True:
        await asyncio.sleep(LOOK_S)
        config = config_now()
        if not is_out_of_date(config, time.time()):
            continue
        told = await renew(config, apply, told)


async def renew(
    config: ClusterConfig, apply: Callable[[Loaded, ClusterConfig], Awaitable[object]], told: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Read the files anew and apply them; the errors because of which that was not done, which are logged once."""
    loaded = await asyncio.to_thread(load, config.locations.conf_dir, config.master_host, run_egroup=True)
    errors = tuple(str(problem) for problem in loaded.problems if problem.severity == "error")
    if loaded.config is not None and not errors:
        errors = fixed(config, loaded.config)
    if errors:
        if errors != told:
            log.error("the configuration of this time of day is refused: %s", "; ".join(errors[:5]))
        return errors
    assert loaded.config is not None
    log.info("the time has come for another part of the configuration")
    await apply(loaded, loaded.config)
    return ()


async def follow_groups(
    config_now: Callable[[], ClusterConfig],
    apply: Callable[[Loaded, ClusterConfig], Awaitable[object]],
    *,
    clock: Callable[[], float] = time.monotonic,
    look_s: float = LOOK_S,
) -> None:
    """Until it is cancelled: ask egroup as often as EGROUP_UPDATE_INTERVAL says, and `apply` what has changed.

    It counts from the last configuration that was applied, for which egroup was asked too.
    """
    config, asked_at, told = config_now(), clock(), tuple[str, ...]()
    while True:
        await asyncio.sleep(look_s)
        if config_now() is not config:
            config, asked_at = config_now(), clock()
        every = config.params.egroup_update_s
        if every is not None and clock() - asked_at >= every:
            asked_at = clock()
            told = await update_groups(config_now, apply, told)


async def update_groups(
    config_now: Callable[[], ClusterConfig],
    apply: Callable[[Loaded, ClusterConfig], Awaitable[object]],
    told: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """Ask egroup anew and apply what has changed; why that was not done, which is logged once.

    Files that have been edited wait for the administrator's reconfig: half of an edit must not come into force.
    """
    config = config_now()
    loaded = await asyncio.to_thread(load, config.locations.conf_dir, config.master_host, run_egroup=True)
    errors = tuple(str(problem) for problem in loaded.problems if problem.severity == "error")
    if loaded.config is not None and loaded.config.digest != config.digest:
        errors = ("the files have changed since they were read; gadmin reconfig reads them",)
    elif loaded.config is not None and not errors:
        errors = fixed(config, loaded.config)
    if errors and errors != told:
        log.error("the members that egroup lists are not renewed: %s", "; ".join(errors[:5]))
    # Whoever has reconfigured meanwhile has asked egroup too.
    if not errors and loaded.config is not None and config_now() is config and loaded.config != config:
        log.info("egroup lists other members than before")
        await apply(loaded, loaded.config)
    return errors
