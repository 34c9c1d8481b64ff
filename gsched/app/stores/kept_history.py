"""What a cluster's store keeps, for `gadmin history`: told in a table, and made smaller. It removes nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, tzinfo
from pathlib import Path

from gsched.base.errors import NotFound
from gsched.model.config import STORE_FILE, ClusterConfig
from gsched.model.store_url import parse_store_url
from gsched.store.retention.compaction import compact_file, compact_server, convert_file
from gsched.store.retention.kept_amounts import EVENT_KINDS, ended_before, kept_amounts

DAY_S = 86_400.0
_MIB = 1 << 20


class KeptHistory:
    """Of the cluster of this configuration; `say` gets line after line."""

    def __init__(self, config: ClusterConfig, say: Callable[[str], None]) -> None:
        self._config = config
        self._say = say

    @property
    def is_in_server(self) -> bool:
        """Whether it is in PostgreSQL."""
        return bool(self._config.locations.store)

    def say_status(self, now: float, zone: tzinfo) -> None:
        """Each kind with its number, size and oldest; then what goes next. `now`: UTC seconds. Raises GschedError."""
        found = kept_amounts(self._config.locations.store_place)
        rows = [("KIND", "COUNT", "MIB", "OLDEST")]
        for kind in found.kinds:
            size = "-" if kind.content_bytes is None else f"{kind.content_bytes / _MIB:.1f}"
            rows.append((kind.name, str(kind.number), size, _moment(kind.oldest, zone)))
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        for name, count, size, oldest in rows:
            self._say(f"{name:<{widths[0]}}  {count:>{widths[1]}}  {size:>{widths[2]}}  {oldest}")
        free = "" if found.free_bytes is None else f", of which {found.free_bytes / _MIB:.1f} MiB are free"
        self._say(f"The store takes {found.total_bytes / _MIB:.1f} MiB{free}")
        if found.floor.seq:
            self._say(f"All that happened since {_moment(found.floor.at, zone)} is kept (event {found.floor.seq})")
        if found.floor.jobs_from:
            self._say(f"Jobs that finished since {_moment(found.floor.jobs_from, zone)} are kept")
        if found.floor.events_from:
            self._say(f"What happened to jobs that finished since {_moment(found.floor.events_from, zone)} is kept")
        self._say_next(now)
        if most := self._config.params.event_history_mb:
            taken = sum(kind.content_bytes or 0 for kind in found.kinds if kind.name in EVENT_KINDS) / _MIB
            then = "those of the jobs that finished first go next" if taken > most else "none go next"
            self._say(f"EVENT_HISTORY_SIZE={most}: events take {taken:.1f} MiB, {then}")

    def _say_next(self, now: float) -> None:
        params = self._config.params
        ages = (
            ("JOB_HISTORY_DAYS", params.job_history_days, "jobs go"),
            (
                "EVENT_HISTORY_DAYS",
                params.event_history_days,
                "jobs lose what happened to them, as far as they have it",
            ),
        )
        for name, days, what in ages:
            if days:
                count = ended_before(self._config.locations.store_place, now - days * DAY_S)
                self._say(f"{name}={days}: {count} {what} next")
            else:
                self._say(f"{name}=0: {'for ever' if name == 'JOB_HISTORY_DAYS' else 'as long as the jobs'}")

    def compact(self, *, convert: bool) -> None:
        """Give room back, and say how much. Raises GschedError."""
        if self.is_in_server:
            found = compact_server(parse_store_url(self._config.locations.store))
        else:
            path = Path(self._config.locations.state_dir) / STORE_FILE
            if not path.is_file():
                raise NotFound(f"there is no store {path}")
            found = convert_file(path) if convert else compact_file(path)
        back = found.before - found.after
        self._say(f"{max(0, back) / _MIB:.1f} MiB came back: the store takes {found.after / _MIB:.1f} MiB")


def _moment(at: float | None, zone: tzinfo) -> str:
    return "-" if at is None else datetime.fromtimestamp(at, zone).strftime("%Y-%m-%d %H:%M:%S")
