"""The keeper of `gsched web` by itself: who waits for PAM, whose process it is, and who may go on."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from gsched.base.errors import PermissionDenied, Unavailable
from gsched.web.front import keeper
from gsched.web.front.keeper import CHECKED_S, MOST_WAITING, SILENT_S, Keeper, KeeperSettings
from gsched.web.front.keeper_messages import (
    PAM_IS_UNSURE,
    PAM_SAYS_NO,
    PAM_SAYS_YES,
    READY,
    KeeperQuestion,
    KeeperTask,
    line_of,
)
from gsched.web.front.web_accounts import WebAccount
from tests.support.folders import new_folder

SETTINGS = KeeperSettings(
    conf_dir="/conf",
    folder="",
    front_uid=os.getuid(),
    system_users=(),
    keys=(),
    pam_service="login",
    names=("h1",),
    scheme="https",
    is_read_only=False,
    may_leave=True,
)


class Kept:
    """A keeper whose accounts, PAM and processes are made up; a process is a `sleep` of one's own."""

    def __init__(self, folder: str, patch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.accounts = {name: WebAccount(name, 1000, 1000, (1000,), "/", "/bin/sh") for name in ("ann", "bob")}
        self.pam: Callable[[], Awaitable[int]] = self.yes
        self.asked: list[tuple[str, ...]] = []
        self.started: list[asyncio.subprocess.Process] = []
        self.keeper = Keeper(replace(SETTINGS, folder=folder), lambda: None, monotonic=lambda: self.now)
        patch.setattr(keeper, "find_account", self.find)
        patch.setattr(keeper, "_ask_pam", self.ask_pam)
        patch.setattr(keeper, "_spawn", self.spawn)
        patch.setattr(keeper, "_first_words", self.first_words)

    async def yes(self) -> int:
        return PAM_SAYS_YES

    def find(self, user: str, *_: object) -> WebAccount:
        if user not in self.accounts:
            raise PermissionDenied("none")
        return self.accounts[user]

    async def ask_pam(self, *words: str) -> int:
        self.asked.append(words)
        return await self.pam()

    async def spawn(self, *_: object) -> asyncio.subprocess.Process:
        self.started.append(await asyncio.create_subprocess_exec("sleep", "1000"))
        return self.started[-1]

    async def first_words(self, _: object) -> str:
        return READY

    def says(self, code: int) -> None:
        async def said() -> int:
            return code

        self.pam = said

    async def ask(self, task: KeeperTask, user: str, **more: str) -> str:
        return (await self.keeper._answered(KeeperQuestion(number=1, task=task, user=user, **more))).path

    async def log_in(self, user: str = "ann") -> None:
        await self.ask(KeeperTask.PROVE, user, password="x", address="10.0.0.5")

    async def open(self, user: str = "ann") -> str:
        return await self.ask(KeeperTask.PROCESS, user, address="10.0.0.5")

    @property
    def running(self) -> int:
        return sum(each.returncode is None for each in self.started)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    folder = new_folder()
    yield Kept(str(folder), monkeypatch)
    shutil.rmtree(folder)


def run(kept: Kept, story: Callable[[], Awaitable[Any]]) -> None:
    async def whole() -> None:
        try:
            async with asyncio.timeout(60):
                await story()
        finally:
            await kept.keeper.close()

    asyncio.run(whole())


def test_so_many_wait_for_pam_and_no_more(kept: Kept) -> None:
    async def story() -> None:
        goes_on = asyncio.Event()

        async def waits() -> int:
            await goes_on.wait()
            return PAM_SAYS_YES

        kept.pam = waits
        tries = [asyncio.create_task(kept.log_in()) for _ in range(MOST_WAITING + 5)]
        done, waiting = await asyncio.wait(tries, return_when=asyncio.FIRST_COMPLETED)
        while len(done) < 5:
            more, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            done |= more
        assert all(isinstance(each.exception(), Unavailable) for each in done)
        assert len(waiting) == MOST_WAITING
        goes_on.set()
        await asyncio.gather(*waiting)
        await kept.log_in()

    run(kept, story)


def test_nobody_has_a_process_without_a_password(kept: Kept) -> None:
    async def story() -> None:
        for password in ("", "a\0b"):
            with pytest.raises(PermissionDenied):
                await kept.ask(KeeperTask.PROVE, "ann", password=password)
        with pytest.raises(PermissionDenied):
            await kept.open()
        assert not kept.asked and not kept.started

    run(kept, story)


def test_a_process_is_started_anew_when_its_account_has_changed(kept: Kept) -> None:
    async def story() -> None:
        await kept.log_in()
        assert await kept.open() == await kept.open()
        assert len(kept.started) == 1
        ann = kept.accounts["ann"]
        for changed in (
            ann._replace(groups=(1000, 1001)),
            ann._replace(groups=(1000,), gid=1002),
            ann._replace(uid=1001),
        ):
            kept.accounts["ann"] = changed
            before = len(kept.started)
            places = await asyncio.gather(kept.open(), kept.open(), kept.open())
            assert set(places) == {await kept.open()} and places[0].endswith(f"/{changed.uid}.sock")
            assert (len(kept.started), kept.running) == (before + 1, 1)
        kept.accounts["ann"] = changed._replace(groups=changed.groups[::-1], shell="/bin/bash")
        await kept.open()
        assert kept.running == 1 and len(kept.started) == 4

    run(kept, story)


def test_an_account_is_checked_when_its_process_starts_and_again(kept: Kept) -> None:
    async def story() -> None:
        await kept.log_in()
        await asyncio.gather(kept.open(), kept.open())
        assert kept.asked == [("login", "ann", "10.0.0.5", "x"), ("login", "ann", "10.0.0.5")]
        kept.now += CHECKED_S
        await kept.open()
        assert len(kept.asked) == 2
        kept.now += 1
        await asyncio.gather(kept.open(), kept.open())
        await kept.open()
        assert len(kept.asked) == 3 and len(kept.started) == 1

    run(kept, story)


@pytest.mark.parametrize("is_gone", [True, False])
def test_whose_account_is_closed_has_neither_session_nor_process(kept: Kept, is_gone: bool) -> None:
    async def story() -> None:
        for user in ("ann", "bob"):
            await kept.log_in(user)
            await kept.open(user)
        ann = kept.accounts["ann"]
        kept.now += CHECKED_S + 1
        if is_gone:
            del kept.accounts["ann"]
        else:
            kept.says(PAM_SAYS_NO)
        with pytest.raises(PermissionDenied):
            await kept.open()
        assert kept.running == 1
        kept.accounts["ann"] = ann
        kept.says(PAM_SAYS_YES)
        with pytest.raises(PermissionDenied, match="log in first"):
            await kept.open()
        await kept.open("bob")
        assert len(kept.started) == 2

    run(kept, story)


def test_while_nobody_can_tell_nobody_is_put_out(kept: Kept) -> None:
    async def story() -> None:
        await kept.log_in()
        await kept.open()
        kept.now += CHECKED_S + 1
        kept.says(PAM_IS_UNSURE)
        with pytest.raises(Unavailable, match="cannot tell now"):
            await kept.open()
        kept.says(PAM_SAYS_YES)
        await kept.open()
        assert len(kept.started) == 1 and kept.running == 1

    run(kept, story)


@pytest.mark.parametrize("address", ["", "evil.example", "10.0.0.5 x", "10.0.0.5\0root"])
def test_pam_is_told_addresses_alone(kept: Kept, address: str) -> None:
    async def story() -> None:
        await kept.ask(KeeperTask.PROVE, "ann", password="x", address=address)
        await kept.ask(KeeperTask.PROVE, "ann", password="x", address="2001:db8::5")
        assert kept.asked == [("login", "ann", "", "x"), ("login", "ann", "2001:db8::5", "x")]

    run(kept, story)


def test_a_front_that_says_nothing_is_noticed(kept: Kept) -> None:
    """The service manager watches the keeper; it is told that all is well only while the front speaks."""

    async def story() -> None:
        front, own = socket.socketpair()
        serving = asyncio.create_task(kept.keeper.serve(own))
        reader, writer = await asyncio.open_unix_connection(sock=front)
        assert kept.keeper.hears_front
        kept.now += SILENT_S + 1
        assert not kept.keeper.hears_front
        writer.write(line_of(KeeperQuestion(number=1, task=KeeperTask.CERTIFICATE)))
        await reader.readline()
        assert kept.keeper.hears_front
        writer.close()
        await serving

    run(kept, story)
