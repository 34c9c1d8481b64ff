"""LSF_MASTER_LIST and LSF_MANAGEMENT_LIST, its newer name: read as a whole, and by commands on their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from config_texts import check, with_lines

from gsched.base.envdir import read_masters

SHARED = ("LSB_MBD_PORT=6881", "GSCHED_STORE=postgresql:///g")


@pytest.mark.parametrize(
    "lines",
    [
        ('LSF_MASTER_LIST="h2 h1"',),
        ('LSF_MANAGEMENT_LIST="h2 h1"',),
        ('LSF_MANAGEMENT_LIST="h2 h1"', 'LSF_MASTER_LIST="h2   h1"'),
    ],
)
def test_one_list_under_two_names(lines: tuple[str, ...], tmp_path: Path) -> None:
    checked = check(with_lines("lsf.conf", *SHARED, *lines, "GSCHED_MUNGE_PORT=6883"))
    assert checked.errors == [] and checked.config is not None
    assert (checked.config.masters, checked.config.master_host) == (("h2", "h1"), "h2")
    (tmp_path / "lsf.conf").write_text("\n".join(lines))
    assert read_masters(str(tmp_path)) == ["h2", "h1"]


def test_two_lists_that_differ() -> None:
    files = with_lines("lsf.conf", *SHARED, 'LSF_MANAGEMENT_LIST="h1 h2"', 'LSF_MASTER_LIST="h2 h1"')
    (error,) = check(files).errors
    assert error.startswith("lsf.conf:")
    assert ": LSF_MANAGEMENT_LIST is another name of LSF_MASTER_LIST, which names other hosts at lsf.conf:" in error


def test_a_list_that_is_none_is_told_once() -> None:
    (error,) = check(with_lines("lsf.conf", "LSF_MANAGEMENT_LIST=h1", 'LSF_MASTER_LIST="h1 h1"')).errors
    assert error.endswith("LSF_MASTER_LIST: h1 is named twice")


def test_no_list(tmp_path: Path) -> None:
    assert read_masters(str(tmp_path)) == []
