"""GSCHED_STORE as `gsched up --store` writes it: nothing else in lsf.conf changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gsched.app.stores.store_moves import address_of, set_store
from gsched.base.errors import BadRequest

OTHERS = 'LSF_ENVDIR=/conf\n# GSCHED_STORE=a comment \\\nLSF_LOGDIR="/a \\\nGSCHED_STORE=b"\n'
NAMED = 'GSCHED_STORE="postgresql:///a?host=/run\\\n/postgresql"\n'
FILE = "GSCHED_STORE_PASSWORD_FILE = /etc/db\n"
NEW = "postgresql://g@db1/b"


@pytest.mark.parametrize(
    ("before", "address", "after"),
    [
        (OTHERS, NEW, f'{OTHERS}GSCHED_STORE="{NEW}"\n'),
        (NAMED + FILE + OTHERS, NEW, f'{FILE}{OTHERS}GSCHED_STORE="{NEW}"\n'),
        (FILE + NAMED + OTHERS, "", OTHERS),
    ],
)
def test_one_parameter_is_replaced_with_all_its_lines(tmp_path: Path, before: str, address: str, after: str) -> None:
    conf = tmp_path / "lsf.conf"
    conf.write_text(before)
    conf.chmod(0o640)
    set_store(tmp_path, address)
    assert (conf.read_text(), conf.stat().st_mode & 0o777) == (after, 0o640)


def test_an_address_without_a_password_file_keeps_the_present_one() -> None:
    present = f"{NEW}?password_file=/etc/db"
    assert address_of("file", present) == ""
    assert address_of(NEW, present) == present, "so the store is there already"
    assert address_of(f"{NEW}?password_file=/etc/other", present) == f"{NEW}?password_file=/etc/other"
    assert address_of(NEW) == NEW
    with pytest.raises(BadRequest, match="a store is in postgresql://"):
        address_of("sqlite:///x", present)
