"""Addresses of stores: what they name, what they must not hold."""

from __future__ import annotations

import pytest

from gsched.base.errors import BadRequest
from gsched.model.store_url import is_store_url, parse_store_url


@pytest.mark.parametrize(
    ("text", "name", "sslmode"),
    [
        ("postgresql://gsched@db1/gsched", "postgresql://gsched@db1/gsched", "verify-full"),
        ("postgres://db1:5433/gsched", "postgresql://db1/gsched", "verify-full"),
        ("postgresql://g@db1,db2:5433/gsched", "postgresql://g@db1,db2/gsched", "verify-full"),
        ("postgresql://g@localhost/gsched", "postgresql://g@localhost/gsched", ""),
        ("postgresql://g@[::1]:5432/gsched", "postgresql://g@::1/gsched", ""),
        ("postgresql://g@[2001:db8::1]/gsched", "postgresql://g@2001:db8::1/gsched", "verify-full"),
        ("postgresql:///gsched", "postgresql:///gsched", ""),
        ("postgresql:///gsched?host=/run/postgresql", "postgresql:///gsched", ""),
        ("postgresql:///gsched?host=db1&user=g", "postgresql://g@db1/gsched", "verify-full"),
        ("postgresql:///?service=cluster", "postgresql:///?service=cluster", ""),
        ("postgresql://g@db1/gsched?sslmode=verify-ca&sslrootcert=/etc/ca.crt", "postgresql://g@db1/gsched", ""),
    ],
)
def test_what_an_address_names(text: str, name: str, sslmode: str) -> None:
    url = parse_store_url(text)
    assert (url.name, url.sslmode) == (name, sslmode)
    assert is_store_url(text)
    assert parse_store_url(url.text) == url


def test_the_file_with_the_password_travels_in_the_address() -> None:
    url = parse_store_url("postgresql://g@db1/gsched?sslrootcert=/etc/ca.crt", "/etc/gsched/password")
    assert url.text == "postgresql://g@db1/gsched?sslrootcert=/etc/ca.crt&password_file=/etc/gsched/password"
    assert url.libpq == "postgresql://g@db1/gsched?sslrootcert=/etc/ca.crt"
    again = parse_store_url(url.text)
    assert (again.password_file, again.libpq) == (url.password_file, url.libpq) == ("/etc/gsched/password", url.libpq)
    assert parse_store_url(url.text, "/etc/other").password_file == "/etc/gsched/password"


def test_blanks_and_plus_signs_stay_what_they_are() -> None:
    url = parse_store_url("postgresql:///x?host=/tmp/a%20b+c&password_file=/etc/a+b%20c")
    assert url.password_file == "/etc/a+b c"
    assert url.libpq == "postgresql:///x?host=/tmp/a%20b%2Bc"
    assert parse_store_url(url.text) == url


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("postgresql://g:s3cret@db1/gsched", "holds a password"),
        ("postgresql://g@db1/gsched?password=s3cret", "holds a password"),
        ("postgresql://g@db1/gsched?sslmode=require&x=s3cret", "has the option 'x', which is not supported"),
        ("postgresql://g@db1/gsched?connect_timeout=60", "has the option 'connect_timeout', which is not supported"),
        ("postgresql://g@db1/gsched?options=-csearch_path", "has the option 'options'"),
        ("postgresql://g@db1/gsched?sslmode=require", "sslmode=require does not verify who the database is"),
        ("postgresql://g@db1/gsched?host=s3cret&sslmode=prefer", "does not verify"),
        ("postgresql://g@db1/gsched?sslmode", "not of the form postgresql://USER@HOST/DATABASE"),
        ("postgresql://g@db1/s3cret db", "not of the form"),
        ("postgresql://g@db1/gsched#s3cret", "not of the form"),
        ("mysql://g@db1/gsched", "not of the form"),
        ("postgresql://g@db1/gsched?password_file=s3cret", "does not begin with /"),
    ],
)
def test_what_is_refused_in_one_line_that_does_not_repeat_it(text: str, what: str) -> None:
    with pytest.raises(BadRequest, match=what) as refused:
        parse_store_url(text)
    assert "s3cret" not in refused.value.text and "\n" not in refused.value.text


def test_a_path_is_no_address() -> None:
    assert not any(map(is_store_url, ("/var/lib/gsched.db", "sqlite:///x", "postgresql", "postgresql:x")))
