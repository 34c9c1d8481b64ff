"""What becomes of upkeep that fails: it is done later, for nobody waits for it.

It must never hide that a store is broken, which ends the process.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

from gsched.base.errors import GschedError
from gsched.store.safeguards.failure import StoreBroken

log = logging.getLogger(__name__)


@contextlib.contextmanager
def put_off(what: str, later: Callable[[], None]) -> Iterator[None]:
    """Where the body fails, call `later`, and log that `what` ("old jobs are taken away") comes later.

    Raises StoreBroken. An error that nobody has thought of is logged with its traceback: the engine's thread must not
    end for it.
    """
    try:
        yield
    except StoreBroken:
        raise
    except GschedError as error:
        later()
        log.warning("%s later: %s", what, error.text)
    except Exception:
        later()
        log.exception("%s later: an unexpected error", what)
