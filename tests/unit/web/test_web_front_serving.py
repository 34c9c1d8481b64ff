"""What `gsched web` of a shared cluster looks at before it serves: addresses of proxies, and its folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gsched.base.errors import BadRequest
from gsched.web.front.front_serving import check_proxies, users_folder


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"])
def test_a_proxys_address_is_not_one_of_this_host(address: str) -> None:
    with pytest.raises(BadRequest, match=rf"^GSCHED_WEB_PROXIES: {address} is an address of this host.*group:NAME"):
        check_proxies(["192.0.2.1", address])


def test_addresses_of_other_hosts_may_be_proxies() -> None:
    check_proxies(["192.0.2.1", "2001:db8::5", "fe80::1234:5678:9abc:def0"])


def test_the_front_changes_nothing_where_root_makes_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owners: list[tuple[object, ...]] = []
    monkeypatch.setattr(os, "chown", lambda *words: owners.append(words))
    for _ in range(2):
        folder = users_folder(str(tmp_path), 951)
        assert os.stat(folder).st_mode & 0o777 == 0o710
    assert owners == [(f"{tmp_path}/users", 0, 951)] * 2
