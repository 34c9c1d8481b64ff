"""GSCHED_COMMAND_WAIT, as commands outside of gsched.cli read it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from gsched.app.commands.in_jobs.requeue_me import requeue_me
from gsched.app.commands.master_client import connect
from gsched.base.errors import BadRequest


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "soon"])
def test_what_is_no_number_of_seconds_is_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSCHED_COMMAND_WAIT", text)
    monkeypatch.setenv("GSCHED_AGENT_SOCKET", str(tmp_path / "agent.sock"))
    told = f"GSCHED_COMMAND_WAIT={text}: not a number of seconds"
    with pytest.raises(BadRequest, match=told):
        connect(str(tmp_path))
    done = CliRunner().invoke(requeue_me, [])
    assert isinstance(done.exception, BadRequest) and done.exception.text == told
