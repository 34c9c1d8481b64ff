"""ELIMARGS in lsf.cluster; LSF_ELIM_BLOCKTIME, LSF_ELIM_DEBUG and LSF_ELIM_RESTARTS there and in lsf.conf."""

from __future__ import annotations

import pytest
from config_texts import check, line_after, with_lines

BEGIN, END = "Begin Parameters", "End Parameters"
BOTH = ("LSF_ELIM_BLOCKTIME=30", "LSF_ELIM_RESTARTS=5")


def timing(files: dict[str, str]) -> tuple[float | None, int | None, bool]:
    checked = check(files)
    assert checked.errors == [] and checked.config is not None
    found = checked.config.timing
    return found.elim_block_s, found.elim_restarts, found.elim_debug


def test_what_they_mean_in_either_file() -> None:
    assert timing(with_lines("lsf.cluster.c1")) == (None, None, False)
    assert timing(with_lines("lsf.cluster.c1", BEGIN, *BOTH, END)) == (30, 5, False)
    assert timing(with_lines("lsf.conf", *BOTH)) == (30, 5, False)
    assert timing(with_lines("lsf.cluster.c1", BEGIN, "lsf_elim_debug = y", END, BEGIN, BOTH[1], END)) == (
        None,
        5,
        True,
    )
    assert timing(with_lines("lsf.conf", "LSF_ELIM_DEBUG=Y", "LSF_ELIM_RESTARTS=0")) == (None, 0, True)


@pytest.mark.parametrize(
    ("lines", "arguments"),
    [
        ([], ()),
        (["ELIMARGS = -v --site 'two words'"], ("-v", "--site", "two words")),
        (['ELIMARGS = "-v -x"'], ("-v", "-x")),
        (["ELIMARGS = -v", END, BEGIN, "EXINTERVAL = 5"], ("-v",)),
    ],
)
def test_arguments_of_elims(lines: list[str], arguments: tuple[str, ...]) -> None:
    checked = check(with_lines("lsf.cluster.c1", BEGIN, *lines, END))
    assert checked.errors == [] and checked.config is not None
    assert checked.config.timing.elim_arguments == arguments


def test_arguments_of_elims_stand_in_lsf_cluster_alone() -> None:
    (error,) = check(with_lines("lsf.conf", "ELIMARGS=-v")).errors
    assert "ELIMARGS" in error


def test_restarts_alone_are_noted_to_have_no_effect() -> None:
    files = with_lines("lsf.cluster.c1", BEGIN, BOTH[1], END)
    assert timing(files) == (None, None, False)
    where = line_after("lsf.cluster.c1") + 1
    note = "LSF_ELIM_RESTARTS has no effect without LSF_ELIM_BLOCKTIME or LSF_ELIM_DEBUG, as in LSF"
    assert f"lsf.cluster.c1:{where}: note: {note}" in check(files).notes


def test_both_files_at_once() -> None:
    files = with_lines("lsf.cluster.c1", BEGIN, BOTH[0], END)
    files |= {"lsf.conf": with_lines("lsf.conf", BOTH[0])["lsf.conf"]}
    (error,) = check(files).errors
    where = line_after("lsf.cluster.c1") + 1
    assert error.startswith(f"lsf.cluster.c1:{where}: LSF_ELIM_BLOCKTIME is set in lsf.conf too, at lsf.conf:")


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("LSF_ELIM_BLOCKTIME=0", "'0' is not a whole number from 1 to 86400"),
        ("LSF_ELIM_BLOCKTIME=soon", "'soon' is not a whole number from 1 to 86400"),
        ("LSF_ELIM_RESTARTS=-1", "'-1' is not a whole number from 0 to 1000000"),
        ("LSF_ELIM_DEBUG=maybe", "'maybe' is neither Y nor N"),
    ],
)
def test_values_that_are_none(line: str, error: str) -> None:
    (found,) = check(with_lines("lsf.conf", line)).errors
    assert found.endswith(f"{line.partition('=')[0]}: {error}")
