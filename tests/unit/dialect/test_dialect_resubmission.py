"""`gsub --resubmit`: what an earlier job asked for, and what is asked for instead."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest

from gsched.base.errors import BadRequest
from gsched.dialect.bsub import ParsedSubmission, read_bsub_script, read_submission
from gsched.dialect.spec_values import ValueContext

NOON = datetime(2026, 11, 21, 12, 0, 30, tzinfo=UTC).timestamp()
AROUND = ValueContext(cwd="/now", now=NOON, zone=UTC)


def first(*words: str, script: bytes = b"") -> ParsedSubmission:
    """What was submitted once, in /then."""
    return read_submission(
        words,
        read_stdin=lambda: script,
        read_file=lambda path: b"input",
        env={"SEED": "1", "LSB_DEFAULTQUEUE": "night"},
        around=ValueContext(cwd="/then", now=NOON, zone=UTC),
    )


def again(earlier: ParsedSubmission, *words: str, **env: str) -> ParsedSubmission:
    """It again, with what these words change."""

    def known(job: str) -> ParsedSubmission:
        assert job == "812"
        return earlier

    return read_submission(
        ("--resubmit", "812", *words),
        read_stdin=lambda: pytest.fail("standard input is the caller's own"),
        read_file=lambda path: b"input",
        env=env,
        around=AROUND,
        read_earlier=known,
    )


def test_all_is_as_it_was() -> None:
    words = (
        "-J",
        "a[1-9]%2",
        "-n",
        "2,4",
        "-R",
        "rusage[mem=8]",
        "-q",
        "short",
        "-oo",
        "log.%J",
        "-W",
        "5",
        "-sp",
        "3",
    )
    earlier = first(*words, "./train.sh", "--lr", "1")
    found = again(earlier, SEED="2", LSB_DEFAULTPROJECT="mine")
    assert found.spec == earlier.spec and found.environment == {"SEED": "1", "LSB_DEFAULTQUEUE": "night"}


def test_a_script_is_run_again() -> None:
    script = b"#!/bin/sh\n#BSUB -J train -W 5\n./train.sh\n"
    earlier = first(script=script)
    found = again(earlier, "-W", "10")
    assert (found.script, found.spec.name, found.spec.run_limit_s) == (script, "train", 600)
    assert found.spec.command == earlier.spec.command == "./train.sh"


def test_what_is_said_counts_instead() -> None:
    earlier = first("-J", "a[1-9]%2", "-n", "2,4", "-m", "a! b+2", "-oo", "log", "-Ne", "-q", "short", "x")
    spec = again(earlier, "-J", "b", "-n", "1", "-m", "c", "-o", "other", "-N", "-q", "long").spec
    assert (spec.name, spec.indices, spec.array_limit, spec.slots, spec.max_slots) == ("b", "", 0, 1, 0)
    assert (spec.hosts, spec.host_levels, spec.first_hosts) == (("c",), (), ())
    assert (spec.output_file, spec.output_overwrite, spec.queue, spec.defaulted) == ("other", False, "long", ())
    assert (spec.notify_end, spec.notify_error) == (True, False)


def test_another_command_and_other_variables() -> None:
    found = again(first("-W", "5", script=b"a\nb\n"), "-env", "all,SEED=2", "c", "d")
    assert (found.spec.command, found.script, found.spec.run_limit_s) == ("c d", None, 300)
    assert found.environment == {"SEED": "2", "LSB_DEFAULTQUEUE": "night"}


def test_who_gave_no_slots_gives_none_again() -> None:
    assert again(first("x")).spec.defaulted == ("slots",)
    assert again(first("-n", "1", "x")).spec.defaulted == ()


def test_the_copy_of_an_input_file_is_not_kept() -> None:
    earlier = first("-is", "data", "x")
    held = msgspec.structs.replace(earlier.spec, spooled_input="blob")
    earlier = replace(earlier, spec=held)
    with pytest.raises(BadRequest, match="--resubmit: the copy that -is made of data is not kept: give -is again"):
        again(earlier)
    found = again(earlier, "-is", "data")
    assert found.input == b"input" and found.spec.spooled_input == ""


@pytest.mark.parametrize("words", [("--notebook",), ("-Zs",)])
def test_what_cannot_stand_beside_it(words: tuple[str, ...]) -> None:
    with pytest.raises(BadRequest, match=r"-notebook says what runs|option -Zs copies the file"):
        again(first("x"), *words)


def test_it_is_for_the_command_line() -> None:
    with pytest.raises(BadRequest, match="'--resubmit' cannot stand in a #BSUB line"):
        read_bsub_script(b"#BSUB --resubmit 812\nx\n", AROUND)
    with pytest.raises(BadRequest, match="option --resubmit is for the command line of gsub"):
        read_submission(("--resubmit", "812"), read_stdin=bytes, read_file=lambda path: b"", env={}, around=AROUND)


def test_its_command_can_be_launched() -> None:
    launched = again(first("python fit.py --rate 1"), "--launch", "torch")
    assert launched.spec.command == "glaunch --launch torch python fit.py --rate 1"
    with pytest.raises(BadRequest, match="the job's command is launched already: glaunch --launch torch python"):
        again(launched, "--launch", "torch")
    with pytest.raises(BadRequest, match="the job is a script: call glaunch in it"):
        again(first(script=b"#!/bin/sh\npython fit.py\n"), "--launch", "torch")
