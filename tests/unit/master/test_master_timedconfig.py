"""A configuration whose files depend on the time is read anew when the time changes what they say."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from gsched.config.files import Loaded, load
from gsched.master.timedconfig import is_out_of_date, renew
from gsched.model.config import ClusterConfig
from gsched.model.window import minute_of_week

NOW = 1_700_000_000.0
FILES = {
    "lsf.conf": "LSB_SHAREDIR=/var/lib/g\nLSF_LOGDIR=/var/log/g\nLSF_SERVERDIR=/usr/libexec/g\n",
    "lsf.cluster.c1": "Begin Host\nHOSTNAME model type server\nh1 ! ! 1\nEnd Host\n",
    "lsb.queues": "Begin Queue\nQUEUE_NAME = normal\nEnd Queue\n",
}


def timed(folder: Path) -> ClusterConfig:
    """Files with a window that is open at NOW alone, read at another time."""
    minute = minute_of_week(NOW) % 1440
    window = f"{minute // 60}:{minute % 60:02}-{(minute + 1) % 1440 // 60}:{(minute + 1) % 60:02}"
    for name, text in FILES.items():
        (folder / name).write_text(text)
    with (folder / "lsb.queues").open("a") as file:
        file.write(f"#if time({window})\nBegin Queue\nQUEUE_NAME = now\nEnd Queue\n#endif\n")
    return load(str(folder), minute=(minute_of_week(NOW) + 5) % (7 * 1440)).required()


def test_it_is_out_of_date_when_a_condition_comes_out_otherwise(tmp_path: Path) -> None:
    config = timed(tmp_path)
    assert "now" not in config.queues
    assert is_out_of_date(config, NOW) and not is_out_of_date(config, NOW + 300.0)
    there = load(str(tmp_path), minute=minute_of_week(NOW)).required()
    assert "now" in there.queues and not is_out_of_date(there, NOW)


def test_what_the_files_say_now_is_applied_and_what_is_refused_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = timed(tmp_path)
    applied: list[ClusterConfig] = []

    async def apply(loaded: Loaded, found: ClusterConfig) -> None:
        applied.append(found)

    assert asyncio.run(renew(config, apply)) == ()
    assert [set(each.queues) >= {"normal"} for each in applied] == [True]
    with (tmp_path / "lsb.queues").open("a") as file:
        file.write("Begin Queue\nNICE = x\nEnd Queue\n")
    with caplog.at_level(logging.ERROR):
        told = asyncio.run(renew(config, apply))
        assert told and asyncio.run(renew(config, apply, told)) == told
    assert len(applied) == 1
    assert len([record for record in caplog.records if "is refused" in record.message]) == 1
