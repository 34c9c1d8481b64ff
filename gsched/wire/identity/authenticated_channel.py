"""A channel on which every call says whose it is: the name that a host vouches for, or a credential.

Each belongs to one user, whom it was made for, and nobody who uses it can name another one. Many may share one
connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc

Proof = Callable[[str, bytes], tuple[tuple[str, str], ...]]
"""Metadata for a call: method path and request (empty for a stream of requests) -> key and value each."""


class ProvingChannel(grpc.Channel):
    """`channel` as one user's; `proof` makes the metadata of each call. Closing it leaves `channel` open."""

    def __init__(self, channel: grpc.Channel, proof: Proof) -> None:
        self._channel = channel
        self._proof = proof

    def unary_unary(self, method: str, request_serializer: Any = None, *args: Any, **options: Any) -> Any:
        """A method whose calls are proven."""
        behind: Any = self._channel.unary_unary(method, None, *args, **options)
        return _Method(behind, method, request_serializer, self._proof)

    def unary_stream(self, method: str, request_serializer: Any = None, *args: Any, **options: Any) -> Any:
        """A method whose calls are proven."""
        behind: Any = self._channel.unary_stream(method, None, *args, **options)
        return _Method(behind, method, request_serializer, self._proof)

    def stream_stream(self, method: str, *args: Any, **options: Any) -> Any:
        """A method whose calls are proven."""
        return _Conversation(self._channel.stream_stream(method, *args, **options), method, self._proof)

    def stream_unary(self, method: str, *args: Any, **options: Any) -> Any:
        """A method whose calls are proven."""
        return _Conversation(self._channel.stream_unary(method, *args, **options), method, self._proof)

    def subscribe(self, callback: Any, try_to_connect: bool | None = False) -> None:
        """As of the channel behind."""
        self._channel.subscribe(callback, bool(try_to_connect))

    def unsubscribe(self, callback: Any) -> None:
        """As of the channel behind."""
        self._channel.unsubscribe(callback)

    def close(self) -> None:
        """Others may use the connection."""

    def __enter__(self) -> ProvingChannel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Method:
    """A method with one request: the proof is made for its bytes."""

    def __init__(self, behind: Any, path: str, serialize: Callable[[Any], bytes], proof: Proof) -> None:
        self._behind = behind
        self._path = path
        self._serialize = serialize
        self._proof = proof

    def __call__(self, request: Any, timeout: float | None = None, wait_for_ready: bool | None = None) -> Any:
        body = self._serialize(request)
        metadata = self._proof(self._path, body)
        return self._behind(body, timeout=timeout, wait_for_ready=wait_for_ready, metadata=metadata)

    def future(self, request: Any, timeout: float | None = None, wait_for_ready: bool | None = None) -> Any:
        body = self._serialize(request)
        metadata = self._proof(self._path, body)
        return self._behind.future(body, timeout=timeout, wait_for_ready=wait_for_ready, metadata=metadata)


class _Conversation:
    """A method with a stream of requests: the proof is for the method alone."""

    def __init__(self, behind: Any, path: str, proof: Proof) -> None:
        self._behind = behind
        self._path = path
        self._proof = proof

    def __call__(self, requests: Any, timeout: float | None = None, wait_for_ready: bool | None = None) -> Any:
        metadata = self._proof(self._path, b"")
        return self._behind(requests, timeout=timeout, wait_for_ready=wait_for_ready, metadata=metadata)
