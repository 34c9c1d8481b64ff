"""A new generation of a store that is lost, begun because an administrator says so, while no master runs."""

from __future__ import annotations

from collections.abc import Callable

from gsched.master.succession import open_store
from gsched.model.config import ClusterConfig


def renew_store(config: ClusterConfig, say: Callable[[str], None]) -> None:
    """Begin it where something is lost, and say what is given up. Raises GschedError."""
    store = open_store(config, renew=True)
    try:
        renewed = store.renewed
        if renewed is None:
            say(f"the store {store.name} is whole: nothing was changed")
            return
        say(f"{renewed.why}: this is generation {store.generation} now")
        for path in renewed.kept:
            say(f"kept: {path}")
        if renewed.goes_on:
            say(f"it goes on with the {store.last_seq} events that are left; later ones are given up")
        else:
            say("it begins empty: all jobs that were in it are given up")
        say(f"new jobs get numbers from {store.numbers_from} on; what runs unrecorded goes on, see `gadmin orphans`")
    finally:
        store.close()
