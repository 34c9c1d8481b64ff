"""The words of badmin and lsadmin: those of LSF that are missing are refused by name."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from gsched.app.commands import command_options, groups, host_and_queue_words, restart_words
from gsched.app.commands.explaining import explain_words
from gsched.app.commands.groups import gadmin, lsadmin
from gsched.base.errors import BadRequest


def test_a_word_that_is_none() -> None:
    done = CliRunner().invoke(gadmin, ["nosuch"], prog_name="badmin")
    assert done.exit_code == 1
    assert done.stderr == "Invalid command <nosuch> \nbadmin -h lists the commands\n"


@pytest.mark.parametrize("group", [gadmin, lsadmin])
@pytest.mark.parametrize("word", ["perfmon", "limdebug", "mbddebug"])
def test_what_is_missing_is_refused_by_name(group: click.Group, word: str) -> None:
    done = CliRunner().invoke(group, [word, "x"])
    assert isinstance(done.exception, BadRequest)
    assert done.exception.text.startswith(f"{word} is not supported")


@pytest.mark.parametrize(
    ("word", "does"),
    [
        ("limrestart", restart_words.hrestart),
        ("resrestart", restart_words.hrestart),
        ("limshutdown", restart_words.hshutdown),
        ("resstartup", restart_words.hstartup),
        ("limlock", host_and_queue_words.hclose),
        ("limunlock", host_and_queue_words.hopen),
    ],
)
def test_lim_and_res_are_the_agent(word: str, does: click.Command) -> None:
    assert lsadmin.get_command(click.Context(lsadmin), word) is does


def test_diagnose_tells_why_a_job_waits() -> None:
    assert gadmin.get_command(click.Context(gadmin), "diagnose") is explain_words.explain


def test_nothing_is_both_there_and_refused() -> None:
    assert not groups.UNSUPPORTED.keys() & {*gadmin.words(), *lsadmin.words()}


@pytest.mark.parametrize(("answer", "yes"), [("y\n", True), ("Yes\n", True), ("n\n", False), ("", False)])
def test_a_question_and_its_answer(answer: str, yes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    assert command_options.asked("Do you?", force=False) is yes
    assert command_options.asked("Do you?", force=True)


def test_help_is_a_word() -> None:
    shown = CliRunner().invoke(gadmin, ["help"])
    assert shown.exit_code == 0 and "mbdrestart" in shown.stdout
