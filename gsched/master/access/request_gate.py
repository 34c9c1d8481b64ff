"""The one way into the master: every call passes here before it is answered.

It finds out who asks (once: a proof may be good for one use only), looks up the call's rule, refuses who may not or
asks too often, and writes the audit log. What a call means it does not know.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from gsched.base.errors import BadRequest, GschedError, Internal, PermissionDenied
from gsched.core.authorization import ROOT, ROOT_DENIED, cluster_denied
from gsched.master.access.audit_log import AuditLog
from gsched.master.access.audit_texts import outcome, wanted
from gsched.master.access.method_policy import Rule, Who, rule_of
from gsched.master.access.rate_limit import RateExceeded, RateLimit
from gsched.master.access.repeated_reads import RepeatedReads
from gsched.master.access.request_sizes import check_sizes, is_long, most_bytes
from gsched.master.agents.connected_agents import Refusals
from gsched.master.metrics.measurements import Measurements
from gsched.model.config import ClusterConfig
from gsched.wire.address import address_of
from gsched.wire.calls.door_relay import PROGRAM_KEY, PROGRAMS
from gsched.wire.identity.caller_identity import Authenticator, Proven, ProvenCaller
from gsched.wire.messages.protocol import RETRY_AFTER_MS
from gsched.wire.server import refuse

log = logging.getLogger(__name__)
_asking: ContextVar[ProvenCaller] = ContextVar("asking")
_proving: ContextVar[Callable[[], Awaitable[ProvenCaller]]] = ContextVar("proving")

LOOK_S = 2.0
"""How often it is looked at whether the caller of a stream would still be let in."""

Details = grpc.HandlerCallDetails
Continuation = Callable[[Details], Awaitable[Any]]


class AdmittedCaller(Proven):
    """For those behind a gate: who was let in with the call that is being answered."""

    def caller(self, context: Any) -> ProvenCaller:
        """Who asks. Raises PermissionDenied for a call that did not come through a gate."""
        found = _asking.get(None)
        if found is None:
            raise PermissionDenied("nobody has let this call in")
        return found

    async def again(self, context: Any) -> None:
        """Whether the agent whose session this is would be let in now. Raises PermissionDenied when not."""
        prove = _proving.get(None)
        if prove is None:
            raise PermissionDenied("nobody has let this session in")
        await prove()


class RequestGate(grpc.aio.ServerInterceptor):
    """One for each server, that is for each way to the master, with the one authenticator of that way.

    `config` gives the configuration in force; `rate_limit` is one for all gates, for a user may come by several ways.
    """

    def __init__(
        self,
        auth: Authenticator,
        config: Callable[[], ClusterConfig],
        audit: AuditLog,
        rate_limit: RateLimit | None = None,
        measurements: Measurements | None = None,
        reads: RepeatedReads | None = None,
        check_lease: Callable[[], None] = lambda: None,
    ) -> None:
        """`check_lease` ends this process where another one may lead by now: what is told here would be out of date."""
        self._measurements = measurements or Measurements()
        self._auth = auth
        self._config = config
        self._audit = audit
        self._rate_limit = rate_limit or RateLimit()
        self._reads = reads or RepeatedReads()
        self._check_lease = check_lease
        self._refusals = Refusals()
        self._handlers: dict[str, Any] = {}

    async def intercept_service(self, continuation: Continuation, handler_call_details: Details) -> Any:
        """gRPC asks for each call how it is to be answered."""
        method = str(handler_call_details.method)
        found = self._handlers.get(method)
        if found is None:
            handler = await continuation(handler_call_details)
            if handler is None:
                return None
            found = self._handlers[method] = self._guarded(method, handler)
        return found

    def _guarded(self, method: str, handler: Any) -> Any:
        rule = rule_of(method)
        if rule is None:
            log.error("no rule says who may call %s", _name(method))
            return grpc.stream_stream_rpc_method_handler(_answer_nobody)
        # A proof may be bound to the bytes of the request: they are kept until it has been looked at.
        read = _or_unreadable(handler.request_deserializer, most_bytes(_name(method)))
        codecs = {
            "request_deserializer": read if handler.request_streaming else _Arrived.reader(read),
            "response_serializer": handler.response_serializer,
        }
        if rule.who is Who.AGENT:  # what a host says that is no message ends its session
            codecs["request_deserializer"] = handler.request_deserializer
            return grpc.stream_stream_rpc_method_handler(self._agent(method, handler.stream_stream), **codecs)
        if handler.unary_unary is not None:
            answer = self._counted(method, self._answer(method, rule, handler.unary_unary))
            return grpc.unary_unary_rpc_method_handler(answer, **codecs)
        if handler.unary_stream is not None:
            stream = self._counted_stream(method, self._stream(method, rule, handler.unary_stream))
            return grpc.unary_stream_rpc_method_handler(stream, **codecs)
        stream = self._counted_stream(method, self._stream(method, rule, handler.stream_stream))
        return grpc.stream_stream_rpc_method_handler(stream, **codecs)

    def _counted(self, method: str, call: Callable[[Any, Any], Awaitable[Any]]) -> Any:
        """The call, counted when it has been answered or refused."""
        name = _name(method)

        async def counted(arrived: Any, context: Any) -> Any:
            began, code = time.monotonic(), ""
            try:
                reply = await call(arrived, context)
                code = grpc.StatusCode.OK.name
                return reply
            finally:
                self._measurements.note_call(name, code or _code(context), time.monotonic() - began)

        return counted

    def _counted_stream(self, method: str, call: Callable[[Any, Any], AsyncIterator[Any]]) -> Any:
        """The same of a call that is answered with a stream, when that has ended."""
        name = _name(method)

        async def counted(arrived: Any, context: Any) -> AsyncIterator[Any]:
            began, code = time.monotonic(), ""
            try:
                async with aclosing(call(arrived, context)) as items:  # type: ignore[type-var]
                    async for item in items:
                        yield item
                code = grpc.StatusCode.OK.name
            finally:
                self._measurements.note_call(name, code or _code(context), time.monotonic() - began)

        return counted

    def _agent(self, method: str, inner: Callable[[Any, Any], Awaitable[None]]) -> Any:
        async def call(requests: Any, context: Any) -> None:
            async def prove() -> ProvenCaller:
                return await self._auth.prove(context, method, b"")

            try:
                _asking.set(await prove())
                _proving.set(prove)
            except GschedError as error:
                if self._refusals.is_news(context.peer(), error.text, time.monotonic()):  # it asks again and again
                    self._write(_name(method), _nobody(context), requests, {"outcome": "refused", "why": error.text})
                await refuse(context, error)
            watch = _Watch(prove)
            try:
                await inner(requests, context)
            except asyncio.CancelledError:
                if watch.refusal is None:
                    raise
                watch.refused()
                log.warning("a session of an agent ends: %s", watch.refusal)
                await refuse(context, watch.refusal)
            finally:
                watch.close()

        return call

    def _answer(self, method: str, rule: Rule, inner: Callable[[Any, Any], Awaitable[Any]]) -> Any:
        name = _name(method)

        async def call(arrived: Any, context: Any) -> Any:
            request, body = _Arrived.opened(arrived)
            caller = await self._let_in(method, rule, request, body, context)
            _asking.set(caller)
            try:
                reply = await inner(request, context)
            except BaseException as error:
                self._note_failure(name, rule, caller, request, context, error)
                raise
            finally:
                self._let_out(caller, rule)
            await self._note(name, rule, caller, request, reply)
            return reply

        return call

    def _stream(self, method: str, rule: Rule, inner: Callable[[Any, Any], AsyncIterator[Any]]) -> Any:
        name = _name(method)

        async def call(arrived: Any, context: Any) -> AsyncIterator[Any]:
            request, body = _Arrived.opened(arrived)
            caller = await self._let_in(method, rule, request, body, context)
            _asking.set(caller)
            noted = False
            whole: Any = None

            async def look() -> None:
                _check(rule, await self._auth.still(context, caller), self._config())

            watch = _Watch(look)
            try:
                wanted = request if isinstance(request, Message) else _readable(request)
                async with aclosing(inner(wanted, context)) as items:  # type: ignore[type-var]
                    async for item in items:
                        if rule.in_parts:
                            whole = _joined(whole, item)
                        elif not noted:  # it may go on for days
                            await self._note(name, rule, caller, request, item)
                            noted = True
                        yield item
            except BaseException as error:
                if watch.refusal is not None:
                    watch.refused()
                    await self._refuse(name, caller, request, context, watch.refusal)
                if not noted:
                    self._note_failure(name, rule, caller, request, context, error)
                raise
            finally:
                watch.close()
                self._let_out(caller, rule)
            if not noted:
                await self._note(name, rule, caller, request, whole)

        return call

    async def _let_in(self, method: str, rule: Rule, request: Any, body: bytes, context: Any) -> ProvenCaller:
        """Who asks, if he may; otherwise the call is aborted."""
        caller, name = _nobody(context), _name(method)
        try:
            caller = await self._auth.prove(context, method, body)
            if program := _program_of(context):
                caller = replace(caller, program=program)
            _check_form(request)
            _check(rule, caller, self._config())
        except GschedError as error:
            await self._refuse(name, caller, request, context, error)
        try:
            if _is_measured(caller):
                self._rate_limit.enter(_purse(caller), self._rate(), load=rule.load)
        except RateExceeded as error:
            if error.to_be_said:
                self._write(name, caller, request, {"outcome": "refused", "why": _why(error)})
            after = (RETRY_AFTER_MS, str(max(1, round(error.after_s * 1000))))
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, error.text, trailing_metadata=(after,))
        self._check_lease()
        return caller

    async def _refuse(
        self, name: str, caller: ProvenCaller, request: Any, context: Any, error: GschedError
    ) -> NoReturn:
        """Say so, to him and in the log; but a flood of refusals does not become a flood of lines."""
        purse = _purse(caller)
        try:
            self._rate_limit.enter(purse, self._rate())
            self._rate_limit.leave(purse)
            self._write(name, caller, request, {"outcome": "refused", "why": error.text})
        except RateExceeded as too_much:
            if too_much.to_be_said:
                self._write(name, caller, request, {"outcome": "refused", "why": f"{error.text}; {_why(too_much)}"})
        await refuse(context, error)
        raise AssertionError("unreachable")

    def _let_out(self, caller: ProvenCaller, rule: Rule) -> None:
        if _is_measured(caller):
            self._rate_limit.leave(_purse(caller), load=rule.load)

    def _rate(self) -> int:
        return self._config().params.max_requests_per_s

    # -- the log --------------------------------------------------------------------------------------------------

    async def _note(self, name: str, rule: Rule, caller: ProvenCaller, request: Any, reply: Any) -> None:
        if not rule.changes or rule.quiet:
            return

        def write() -> None:
            self._write(name, caller, request, outcome(name, reply), is_read=rule.reads)

        if is_long(request) or is_long(reply):  # reading it takes a while: not in the loop that serves everybody
            await asyncio.to_thread(write)
        else:
            write()

    def _note_failure(
        self, name: str, rule: Rule, caller: ProvenCaller, request: Any, context: Any, error: BaseException
    ) -> None:
        denied = context.code() is grpc.StatusCode.PERMISSION_DENIED
        if not (denied or (rule.changes and not rule.reads)):
            return
        aborted = isinstance(error, grpc.aio.AbortError)
        why = context.details() if aborted else "the caller went away before it was answered"
        word = "refused" if aborted else "unknown"
        came_of_it = {"outcome": word, "why": str(why or type(error).__name__)}
        self._write(name, caller, request, came_of_it, is_read=rule.reads)

    def _write(
        self, name: str, caller: ProvenCaller, request: Any, came_of_it: dict[str, str], *, is_read: bool = False
    ) -> None:
        who = {"user": caller.user or "?", "host": caller.host or self._config().master_host, "way": caller.way}
        if caller.program:
            who["program"] = caller.program
        about = {} if isinstance(request, _Unreadable) else wanted(name, request)
        facts = {**who, "action": name, **about, **came_of_it}
        if not is_read or self._reads.is_news(facts):
            self._audit.write(time.time(), facts)


class _Watch:
    """Looks again and again whether the caller of the stream that the current task answers would still be let in:
    `look` raises GschedError when not. Then it ends the task.
    """

    def __init__(self, look: Callable[[], Awaitable[object]]) -> None:
        self.refusal: GschedError | None = None
        self._answering = asyncio.current_task()
        self._looks = asyncio.create_task(self._watch(look))

    async def _watch(self, look: Callable[[], Awaitable[object]]) -> None:
        while self.refusal is None:
            await asyncio.sleep(LOOK_S)
            try:
                await look()
            except GschedError as error:
                self.refusal = error
            except Exception as error:  # whoever cannot be looked at is not let in either
                log.exception("whether the caller of a stream is still let in cannot be told")
                self.refusal = Internal(f"whether you are still let in cannot be told: {error}")
        if self._answering is not None:
            self._answering.cancel()

    def refused(self) -> None:
        """The task goes on, to say so."""
        if self._answering is not None:
            self._answering.uncancel()

    def close(self) -> None:
        """The stream is over."""
        self._looks.cancel()


class _Arrived(NamedTuple):
    """A request with the bytes it was read from."""

    request: Any
    body: bytes

    @classmethod
    def reader(cls, read: Callable[[bytes], Any]) -> Callable[[bytes], _Arrived]:
        """What reads a request and keeps its bytes."""
        return lambda body: cls(read(body), body)

    @staticmethod
    def opened(arrived: Any) -> tuple[Any, bytes]:
        """The request and its bytes; a stream of requests as it is."""
        return arrived if isinstance(arrived, _Arrived) else (arrived, b"")


def _joined(whole: Message | None, part: Message) -> Message:
    """The parts of an answer put together."""
    joined = type(part)() if whole is None else whole
    joined.MergeFrom(part)
    return joined


def _code(context: Any) -> str:
    """The status of a call that was not answered; a caller who went away has set none."""
    code = context.code()
    return code.name if isinstance(code, grpc.StatusCode) else grpc.StatusCode.CANCELLED.name


def _nobody(context: Any) -> ProvenCaller:
    """Somebody who has proven nothing: all that is known is the address he connected from."""
    return ProvenCaller(user="", is_admin=False, host=address_of(context.peer()), way="unproven")


def _program_of(context: Any) -> str:
    """Which of the programs that are known a process says to be."""
    said = [value for key, value in context.invocation_metadata() or () if key == PROGRAM_KEY]
    return said[0] if len(said) == 1 and said[0] in PROGRAMS else ""


def _name(method: str) -> str:
    """`Scheduler.Submit` of the path of a method."""
    return method.rpartition(".")[2].replace("/", ".")


def _check(rule: Rule, caller: ProvenCaller, config: ClusterConfig) -> None:
    """Raise PermissionDenied unless the caller may make such a call at all."""
    if rule.who is Who.CLUSTER and not caller.is_admin:
        raise PermissionDenied(cluster_denied(config))
    if caller.user == ROOT and rule.changes and caller.way != "owner" and not config.params.root_may_submit:
        raise PermissionDenied(ROOT_DENIED)


class _Unreadable(NamedTuple):
    """Bytes that are not looked at, and why."""

    why: str


_NO_MESSAGE = "what was sent is no message of this call: do both sides have the same version?"


def _or_unreadable(read: Callable[[bytes], Any], most: int) -> Callable[[bytes], Any]:
    """As `read`, but what is no message, or has more than `most` bytes, is told behind the gate: gRPC would log it,
    however often it comes.
    """

    def attempt(body: bytes) -> Any:
        if len(body) > most:
            return _Unreadable(f"a request of {len(body)} bytes: {most} are the most")
        try:
            return read(body)
        except DecodeError:
            return _Unreadable(_NO_MESSAGE)

    return attempt


async def _readable(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for request in requests:
        _check_form(request)
        yield request


def _check_form(request: Any) -> None:
    """Raise BadRequest for what cannot be read, or is larger than it may be."""
    if isinstance(request, _Unreadable):
        raise BadRequest(request.why)
    if isinstance(request, Message):
        check_sizes(request)


def _is_measured(caller: ProvenCaller) -> bool:
    """Whoever is on the master's own socket is the cluster's owner: there is nobody whom he could harm."""
    return caller.way != "owner"


def _purse(caller: ProvenCaller) -> str:
    """Under which name the caller's requests are counted: one name for all who have proven nothing."""
    return caller.user


async def _answer_nobody(requests: Any, context: Any) -> None:
    await context.abort(grpc.StatusCode.PERMISSION_DENIED, "no rule says who may make this call")


def _why(error: RateExceeded) -> str:
    return f"{error.text}; and {error.unsaid} more of them" if error.unsaid else error.text
