"""What a page of metrics is made of: published views, measurements, and who is connected. The engine is not asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from prometheus_client import PLATFORM_COLLECTOR, PROCESS_COLLECTOR
from prometheus_client.core import Metric

from gsched import __version__
from gsched.master.metrics.families import Moment, families
from gsched.master.metrics.job_counts import count_jobs
from gsched.master.metrics.measurements import Measurements
from gsched.master.metrics.pace import Pace
from gsched.master.views.board import Board


class Collection:
    """`connected` tells how many agents have a session, `problem` why nothing can be stored (empty: it can)."""

    def __init__(
        self, board: Board, measurements: Measurements, connected: Callable[[], int], problem: Callable[[], str]
    ) -> None:
        self._board = board
        self._measurements = measurements
        self._connected = connected
        self._problem = problem

    def families(self, pace: Pace) -> Iterator[Metric]:
        """Families of gsched, then those of the process (processor time, memory, open files) and of Python."""
        config = self._board.config
        moment = Moment(
            version=__version__,
            cluster=config.cluster,
            begun_at=time.time(),
            counts=count_jobs(self._board, pace),
            hosts=self._board.hosts(),
            queues=frozenset(config.queues),
            measurements=self._measurements,
            agents=sum(host.server for host in config.hosts.values()),
            connected=self._connected(),
            store_is_refusing=bool(self._problem()),
            quarantined=len(self._board.quarantined),
        )
        yield from families(moment, pace)
        yield from PROCESS_COLLECTOR.collect()
        yield from PLATFORM_COLLECTOR.collect()
