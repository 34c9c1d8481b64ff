"""The door's frames and requests: what is sent arrives, and nothing else gets through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched import command_table
from gsched.app import launch
from gsched.cli.session import call
from gsched.door import protocol
from gsched.door.protocol import Decoder, ProtocolError, Request, frame


def _text(without: bytes) -> st.SearchStrategy[str]:
    """Whatever bytes the kernel lets through, as a Call holds them."""
    return st.binary(max_size=30).map(lambda data: data.translate(None, without).decode("utf-8", "surrogateescape"))


TEXT = _text(b"\0")
NAME = _text(b"\0=")


@given(
    frames=st.lists(st.tuples(st.sampled_from([b"R", b"D", b"o"]), st.binary(max_size=50)), max_size=8),
    cuts=st.lists(st.integers(1, 9), min_size=1, max_size=30),
)
def test_frames_survive_any_way_of_being_cut(frames: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    data = b"".join(frame(kind, payload) for kind, payload in frames)
    decoder = Decoder()
    got = []
    position = 0
    for turn in range(len(data) + 1):
        size = cuts[turn % len(cuts)]
        got += decoder.feed(data[position : position + size])
        position += size
    assert got == frames


def test_a_frame_longer_than_allowed_is_refused_by_its_header_alone() -> None:
    with pytest.raises(ProtocolError, match="1048577"):
        Decoder().feed(b"D" + (protocol.MAX_FRAME + 1).to_bytes(4, "big"))


@given(
    argv=st.lists(TEXT, min_size=1, max_size=5),
    env=st.dictionaries(NAME, TEXT, max_size=5),
    cwd=TEXT,
    umask=st.integers(0, 0o777),
    columns=st.integers(0, 500),
    terminals=st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_a_request_arrives_as_it_was(
    argv: list[str], env: dict[str, str], cwd: str, umask: int, columns: int, terminals: tuple[bool, bool, bool]
) -> None:
    request = Request(argv, cwd, env, umask, terminals, columns)
    assert Request.decode(request.encode()) == request


@given(st.binary(max_size=200))
def test_rubbish_is_a_protocol_error_or_a_request_never_anything_else(blob: bytes) -> None:
    try:
        request = Request.decode(blob)
    except ProtocolError:
        return
    assert request.argv


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"/\x0022\x00000\x0080\x000",  # no arguments
        b"/\x0022\x00000\x0080\x002\x00gsub",  # fewer arguments than announced
        b"/\x0022\x00000\x0080\x00-1\x00gsub\x00A=1",
        b"/\x0099\x00000\x0080\x001\x00gsub",  # no octal umask
        b"/\x0022\x0000\x0080\x001\x00gsub",  # two digits for three streams
        b"/\x0022\x00000\x0080\x001\x00gsub\x00NOVALUE",
    ],
)
def test_requests_that_make_no_sense_are_refused(blob: bytes) -> None:
    with pytest.raises(ProtocolError):
        Request.decode(blob)


def test_the_launcher_speaks_the_same_protocol() -> None:
    names = [name for name in vars(protocol) if name.isupper() and name not in ("HEADER",)]
    assert len(names) > 15
    assert {name: getattr(launch, name) for name in names} == {name: getattr(protocol, name) for name in names}
    assert launch.INPUT_LIMIT == call.INPUT_LIMIT


def test_only_commands_that_change_nothing_are_run_again() -> None:
    again = {command_table.READS, command_table.READS_HISTORY, command_table.WAITS}
    changing = ("gsub", "gkill", "gstop", "gresume", "gmod", "grsvadd", "gpost", "bsub", "bkill", "unknown")
    assert not {command_table.run_mode(name) for name in changing} & again
    assert {command_table.run_mode(name) for name in ("gjobs", "bjobs", "ghist", "gwait", "bwait")} == again
