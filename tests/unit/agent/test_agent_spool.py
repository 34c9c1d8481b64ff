"""The agent's folder is made again when somebody removes it, with what tells it from others, and the host says so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gsched.agent.agent_spool import SpoolFolder, mark_of, only_one
from gsched.agent.store_memory import StoreMemory
from gsched.base.coded_text import sentence
from gsched.base.errors import Conflict
from gsched.store.mark import StoreMark, remembered
from gsched.wire.v1 import agent_pb2

KNOWN = agent_pb2.StoreMark(cluster_id="c", generation=1, seq=3, next_job_id=1001)


class Agent:
    """A folder with its lock, mark and memory, and what runs."""

    def __init__(self, spool: Path) -> None:
        spool.mkdir(mode=0o700)
        (spool / "attempts").mkdir()
        self.spool = spool
        self.running = ["7.1", "8.2"]
        self.mark = mark_of(spool)
        self.memory = StoreMemory(spool)
        self.memory.take(KNOWN)
        self.put_back: set[str] = set()
        self.folder = SpoolFolder(spool, self.mark, lambda: self.running, self.memory.write, self._put_back)

    def _put_back(self) -> set[str]:
        found, self.put_back = self.put_back, set()
        return found


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path / "h")


def test_a_folder_that_is_there_is_left_alone(agent: Agent) -> None:
    before = sorted(agent.spool.iterdir())
    agent.folder.look()
    assert sorted(agent.spool.iterdir()) == before and agent.folder.remarks() == ()


@pytest.mark.parametrize("part", ["", "attempts", "mark"])
def test_what_was_removed_is_made_again(agent: Agent, part: str) -> None:
    gone = agent.spool / part
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    agent.folder.look()
    assert mark_of(agent.spool) == agent.mark
    assert remembered(agent.spool) == StoreMark(cluster_id="c", seq=3, next_job_id=1001)
    assert (agent.spool / "attempts").is_dir() and agent.spool.stat().st_mode & 0o077 == 0
    (note,) = agent.folder.remarks()
    assert sentence(note).endswith("was removed and made again: how runs 7.1, 8.2 end may not be known")
    agent.running = ["8.2", "9.1"]
    agent.folder.look()
    assert "how runs 8.2 end" in sentence(agent.folder.remarks()[0])
    agent.running = ["9.1"]
    assert agent.folder.remarks() == ()


@pytest.mark.parametrize("part", ["", "attempts", None])
def test_runs_whose_records_are_written_again_are_told_apart(agent: Agent, part: str | None) -> None:
    """Also where only their own folders were removed."""
    if part is not None:
        shutil.rmtree(agent.spool / part)
    agent.put_back = {"8.2"}
    agent.folder.look()
    agent.folder.look()
    told = [sentence(note).partition(" was removed and made again: ")[2] for note in agent.folder.remarks()]
    mended = "what runs 8.2 had printed without -o until then is lost"
    assert told == ([mended] if part is None else ["how runs 7.1 end may not be known", mended])
    agent.running = ["7.1"]
    assert len(agent.folder.remarks()) == (part is not None)


def test_the_new_folder_is_held_as_the_old_one_was(agent: Agent) -> None:
    with only_one(agent.spool, "h"):
        shutil.rmtree(agent.spool)
        agent.folder.look()
        with pytest.raises(Conflict, match="an agent of h already runs"), only_one(agent.spool, "h"):
            pass


def test_a_folder_that_cannot_be_made_is_said(agent: Agent) -> None:
    shutil.rmtree(agent.spool)
    agent.spool.write_text("a file in its place")
    agent.folder.look()
    (note,) = agent.folder.remarks()
    assert sentence(note).startswith(f"the spool folder {agent.spool} is gone and cannot be made again: ")
    assert sentence(note).endswith("; no job can start here")
    agent.spool.unlink()
    agent.folder.look()
    assert "was removed and made again" in sentence(agent.folder.remarks()[0])
