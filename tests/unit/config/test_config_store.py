"""GSCHED_STORE: where the jobs and the history are kept; what cannot be is refused at its line."""

from __future__ import annotations

import pytest
from config_texts import BASE

from gsched.config.configuration import check_texts
from gsched.master.reconfig_notes import fixed
from gsched.model.config import ClusterConfig

LINE = BASE["lsf.conf"].count("\n") + 1


def config(lines: str = "") -> ClusterConfig:
    return check_texts("/conf", {**BASE, "lsf.conf": BASE["lsf.conf"] + lines}).required()


def test_without_a_word_it_is_a_file_below_the_state_folder() -> None:
    locations = config().locations
    assert locations.store_place == f"{locations.state_dir}/gsched.db"


def test_a_database_and_the_file_with_its_password() -> None:
    local = config('GSCHED_STORE="postgresql:///gsched?host=/run/postgresql"\n').locations
    assert local.store_place == "postgresql:///gsched?host=/run/postgresql"
    remote = config("GSCHED_STORE=postgresql://g@db1/gsched\nGSCHED_STORE_PASSWORD_FILE=/etc/gsched/db\n").locations
    assert remote.store_place == "postgresql://g@db1/gsched?password_file=/etc/gsched/db"


@pytest.mark.parametrize(
    ("lines", "place", "told"),
    [
        ("GSCHED_STORE=/var/lib/other.db\n", 0, "the store is a file below LSB_SHAREDIR, or postgresql://"),
        ("GSCHED_STORE=mysql://db1/gsched\n", 0, "the store is a file below LSB_SHAREDIR, or postgresql://"),
        ("GSCHED_STORE=postgresql://g:s3cret@db1/gsched\n", 0, "GSCHED_STORE_PASSWORD_FILE names"),
        ("GSCHED_STORE=postgresql://g@db1/gsched?sslmode=allow\n", 0, "sslmode=allow does not verify"),
        ("GSCHED_STORE_PASSWORD_FILE=/etc/gsched/db\n", 0, "which is not set"),
        ("GSCHED_STORE=postgresql:///x\nGSCHED_STORE_PASSWORD_FILE=db\n", 1, "not an absolute path"),
    ],
)
def test_what_is_refused(lines: str, place: int, told: str) -> None:
    problems = check_texts("/conf", {**BASE, "lsf.conf": BASE["lsf.conf"] + lines}).problems
    (found,) = [each for each in problems if each.severity == "error"]
    assert (found.path, found.line) == ("/conf/lsf.conf", LINE + place)
    assert told in found.text and "s3cret" not in found.text


def test_it_does_not_change_while_the_daemons_run() -> None:
    assert fixed(config(), config("GSCHED_STORE=postgresql:///gsched\n")) == (
        "GSCHED_STORE cannot change while the daemons run: see gadmin store-copy",
    )
