"""A configuration whose files depend on the time is read anew when the time changes what they say."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from gsched.config.configuration import Loaded, load
from gsched.master.timed_configuration import follow_groups, is_out_of_date, renew, update_groups
from gsched.model.config import ClusterConfig
from gsched.model.queues.window import minute_of_week

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


def listing(folder: Path, names: str) -> None:
    """An egroup that lists these users for every group."""
    path = folder / "egroup"
    path.write_text(f"#!/bin/sh\necho {names}\n")
    path.chmod(0o755)


@pytest.fixture
def external(tmp_path: Path) -> Path:
    """Files with a group of users that egroup lists every minute: ann and bob."""
    files = {
        **FILES,
        "lsf.conf": FILES["lsf.conf"].replace("/usr/libexec/g", str(tmp_path)),
        "lsb.params": "Begin Parameters\nEGROUP_UPDATE_INTERVAL = 1m\nEnd Parameters\n",
        "lsb.users": "Begin UserGroup\nGROUP_NAME GROUP_MEMBER\nstaff (!)\nEnd UserGroup\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    listing(tmp_path, "ann bob")
    return tmp_path


class Applied:
    """The configuration in force, and those that were applied."""

    def __init__(self, folder: Path) -> None:
        self.config = load(str(folder), run_egroup=True).required()
        self.staff: list[tuple[str, ...]] = []

    def now(self) -> ClusterConfig:
        return self.config

    async def apply(self, loaded: Loaded, found: ClusterConfig) -> None:
        self.config = found
        self.staff.append(found.user_groups["staff"].users)


def test_other_members_are_applied_and_the_same_are_not(external: Path) -> None:
    applied = Applied(external)
    assert asyncio.run(update_groups(applied.now, applied.apply)) == () and applied.staff == []
    listing(external, "ann eve")
    assert asyncio.run(update_groups(applied.now, applied.apply)) == () and applied.staff == [("ann", "eve")]
    assert asyncio.run(update_groups(applied.now, applied.apply)) == () and len(applied.staff) == 1


def test_members_stay_when_egroup_fails_or_files_are_being_edited(
    external: Path, caplog: pytest.LogCaptureFixture
) -> None:
    applied = Applied(external)
    (external / "egroup").chmod(0o644)
    with caplog.at_level(logging.ERROR):
        told = asyncio.run(update_groups(applied.now, applied.apply))
        assert asyncio.run(update_groups(applied.now, applied.apply, told)) == told
    assert [each.message for each in caplog.records if each.levelno == logging.ERROR] == [
        "the members that egroup lists are not renewed: "
        f"{external}/lsb.users:3: group staff: {external}/egroup: cannot be run: Permission denied"
    ]
    listing(external, "eve")
    with (external / "lsb.queues").open("a") as file:
        file.write("Begin Queue\nQUEUE_NAME = half\nEnd Queue\n")
    (told,) = asyncio.run(update_groups(applied.now, applied.apply))
    assert told.startswith("the files have changed") and applied.staff == []


def test_egroup_is_asked_when_the_interval_has_passed_since_the_last_configuration(external: Path) -> None:
    applied = Applied(external)
    listing(external, "eve")
    time_s = 0.0
    looked = asyncio.Event()

    def clock() -> float:
        looked.set()
        return time_s

    async def looks(times: int) -> None:
        for _ in range(times):
            looked.clear()
            await asyncio.wait_for(looked.wait(), 60.0)

    async def story() -> None:
        nonlocal time_s
        following = asyncio.create_task(follow_groups(applied.now, applied.apply, clock=clock, look_s=0.0))
        await looks(1)
        time_s = 59.0
        await looks(3)
        assert applied.staff == []
        time_s = 60.0
        async with asyncio.timeout(60.0):
            while not applied.staff:
                await asyncio.sleep(0.0)
        listing(external, "tom")
        time_s = 119.0
        await looks(3)
        assert applied.staff == [("eve",)]
        following.cancel()

    asyncio.run(story())
