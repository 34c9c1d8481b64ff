"""Folders with patterns, and copies of files as commands."""

from __future__ import annotations

from gsched.agent.attempts.path_expansion import copies, settled
from gsched.base.ids import element_id
from gsched.model.jobs.job import JobSpec


def spec(**changes: object) -> JobSpec:
    plain = {"command": "c", "user": "ann", "queue": "normal", "cwd": "/sub", "home": "/home/ann", "project": "p"}
    return JobSpec(**(plain | changes))


def test_patterns_are_filled_in_once_the_job_is_known():
    asked = spec(specified_cwd="/a/%J/%I/%%", output_dir="/o/%JG/%P/%U/%G%H", group="/night/one", output_file="out.%J")
    found, folders = settled(asked, element_id(12, 3), "ann", "users")
    assert found.specified_cwd == "/a/12/3/%%"
    assert found.output_dir == "/o/night/one/p/ann/users/home/ann"
    assert found.output_file == "/o/night/one/p/ann/users/home/ann/out.%J"
    assert folders == (found.specified_cwd, found.output_dir)


def test_a_folder_without_patterns_must_be_there():
    found, folders = settled(spec(specified_cwd="/a", output_file="/abs", error_file="e"), 7, "ann", "users")
    assert (found.specified_cwd, found.output_file, found.error_file, folders) == ("/a", "/abs", "e", ())


def test_copies_go_both_ways():
    asked = spec(specified_cwd="/run", file_copies=("in > a", "out << b", "x >< /y"))
    before, after = copies(asked)
    assert [step.command for step in before] == [
        "[ '/sub/in' -ef '/run/a' ] || cp -- '/sub/in' '/run/a'",
        "[ '/sub/x' -ef '/y' ] || cp -- '/sub/x' '/y'",
    ]
    assert [step.command for step in after] == [
        "[ '/run/b' -ef '/sub/out' ] || cat -- '/run/b' >> '/sub/out'",
        "[ '/y' -ef '/sub/x' ] || cp -- '/y' '/sub/x'",
    ]
