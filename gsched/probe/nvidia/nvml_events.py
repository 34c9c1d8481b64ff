"""What the driver tells by itself: errors (XIDs) of GPUs, heard as they happen, in a thread of the probe's process.

Nothing is judged here. Where events cannot be had (an old GPU, a virtual one, bindings without them) that is said.
Source of functions, event types and errors: NVIDIA's NVML API reference, "Event Handling Methods".
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

from gsched.base.coded_text import AnyText, coded, listed, order_of
from gsched.model.hosts.host import MOST_XIDS, GpuXid
from gsched.probe.nvidia.nvml_read import one_line, value_of

XID = 8
"""nvmlEventTypeXidCriticalError; its data is the XID."""
DOUBLE_BIT_ECC = 2
"""nvmlEventTypeDoubleBitEccError: a reason to look; the counters say the rest."""

WAIT_MS = 60_000
SHORTEST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0


class Events:
    """Listens from the first GPU on. `notify` is called, from another thread, when there is news to be fetched; once
    until `taken` has fetched it.
    """

    def __init__(self, api: Any, notify: Callable[[], None]) -> None:
        self._api = api
        self._notify = notify
        self._set: Any = None
        self._why: AnyText = ""
        self._registered: dict[str, int] = {}
        """UUID -> index of those that are listened to, or cannot be."""
        self._refused: dict[str, AnyText] = {}
        self._uuids: dict[int, str] = {}
        """Address of a handle -> UUID."""
        self._lock = threading.Lock()
        self._heard: list[tuple[str, int]] = []
        self._has_news = False
        self._ended = threading.Event()

    def listen_to(self, index: int, uuid: str, handle: Any) -> None:
        """Hear of this GPU from now on; again after `forget`."""
        self._uuids[_address(handle)] = uuid
        if self._registered.get(uuid) == index:
            return
        self._registered[uuid] = index
        if self._set is None and not self._why:
            self._begin()
        why = self._why or self._register(handle)
        if why:
            self._refused[uuid] = why
        else:
            self._refused.pop(uuid, None)

    def forget(self, uuid: str) -> None:
        """The GPU does not answer: should it come back, it has to be asked again."""
        self._registered.pop(uuid, None)

    def taken(self) -> dict[str, tuple[GpuXid, ...]]:
        """UUID -> what was heard since this was called last, each number once."""
        with self._lock:
            heard, self._heard, self._has_news = self._heard, [], False
        found: dict[str, dict[int, GpuXid]] = {}
        for uuid, number in heard:
            found.setdefault(uuid, {})[number] = GpuXid(number=number)
        return {uuid: tuple(numbers.values())[-MOST_XIDS:] for uuid, numbers in found.items()}

    @property
    def unheard(self) -> AnyText:
        """Which GPUs nothing is heard of, and why."""
        indexes: dict[AnyText, list[int]] = {}
        for uuid, why in self._refused.items():
            indexes.setdefault(why, []).append(self._registered.get(uuid, -1))
        told = [
            coded("nvml.of_gpus", ", ".join(str(index) for index in sorted(indexes[why]) if index >= 0), why)
            for why in sorted(indexes, key=order_of)
        ]
        return listed(told, "list.semicolon")

    def end(self) -> None:
        """The library is shut down."""
        self._ended.set()

    def _begin(self) -> None:
        try:
            self._set = self._api.nvmlEventSetCreate()
        except (AttributeError, self._api.NVMLError) as problem:
            self._why = coded("nvml.no_events", str(problem))
            return
        threading.Thread(target=self._listen, name="events", daemon=True).start()

    def _register(self, handle: Any) -> AnyText:
        """Why nothing can be heard of the GPU; empty when it can."""
        api = self._api
        wanted = XID | DOUBLE_BIT_ECC
        supported = value_of(lambda: api.nvmlDeviceGetSupportedEventTypes(handle))
        if supported is not None:
            wanted &= supported
        if not wanted & XID:
            return coded("nvml.no_xids")
        try:
            api.nvmlDeviceRegisterEvents(handle, wanted, self._set)
        except (AttributeError, api.NVMLError) as problem:
            return one_line(str(problem))
        return ""

    def _listen(self) -> None:
        pause_s = SHORTEST_PAUSE_S
        while not self._ended.is_set():
            try:
                event = self._api.nvmlEventSetWait_v2(self._set, WAIT_MS)
            except self._api.NVMLError as problem:
                if problem.value == self._api.NVML_ERROR_TIMEOUT:
                    continue
                self._hear("", 0)  # a GPU is lost, say: a look will tell
                self._ended.wait(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                continue
            except AttributeError:  # bindings without the function
                return
            pause_s = SHORTEST_PAUSE_S
            self._hear(self._uuid_of(event.device), event.eventData if event.eventType == XID else 0)

    def _uuid_of(self, handle: Any) -> str:
        known = self._uuids.get(_address(handle))
        return known or one_line(value_of(lambda: self._api.nvmlDeviceGetUUID(handle)))

    def _hear(self, uuid: str, number: int) -> None:
        with self._lock:
            if uuid and number and (uuid, number) not in self._heard:
                self._heard.append((uuid, int(number)))
            is_first, self._has_news = not self._has_news, True
        if is_first:
            self._notify()


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
