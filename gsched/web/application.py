"""The application: which addresses there are, and what stands before them.

Reading and writing are apart: without `WebContext.is_read_only` there are routes that change something, with it there
is none. Pages run in threads, since the client of the master waits; live streams do not.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from gsched.base.errors import GschedError, Internal
from gsched.web.access.form_reading import Fields, read_form
from gsched.web.access.gate import FindSession, Gate, by_cookie
from gsched.web.access.sessions import WebSessions
from gsched.web.access.web_place import OWN_PLACE, WebPlace
from gsched.web.administration.administrators import by_administrators, for_administrators
from gsched.web.administration.audit_page import audit_page
from gsched.web.administration.configuration_page import FILES, apply_files, change_file, file_page, files_page
from gsched.web.administration.hosts_and_queues import PAGE, administration_page, control_hosts, control_queues
from gsched.web.job_pages.compare_page import compare_page
from gsched.web.job_pages.job_curves import job_curves
from gsched.web.job_pages.job_deeds import do_deed
from gsched.web.job_pages.job_output import download, job_output
from gsched.web.job_pages.job_page import job_page
from gsched.web.job_pages.jobs_page import jobs_page
from gsched.web.job_pages.new_job import job_line, new_job, submit_job
from gsched.web.job_pages.output_search import output_search
from gsched.web.job_pages.start_outlook import start_outlook
from gsched.web.job_pages.why_page import why_page
from gsched.web.pages.cluster_page import cluster_curves, cluster_page
from gsched.web.pages.gpu_page import gpu_curves, gpu_page
from gsched.web.pages.live_stream import live_stream
from gsched.web.pages.login_pages import LoginPages
from gsched.web.pages.page_context import WebContext, WebPage, show_error
from gsched.web.pages.queues_page import queues_page
from gsched.web.services.service_gate import AliasOf, ServiceGate, open_service
from gsched.web.services.service_names import ServicePlace
from gsched.web.services.service_sessions import ServiceSessions

OWN_SERVICES = ServicePlace()
Deed = Callable[[WebContext, Request, Fields], Response]
Endpoint = Callable[[Request], Awaitable[Response]]

READ: dict[str, WebPage] = {
    "/": cluster_page,
    "/curves": cluster_curves,
    "/compare": compare_page,
    "/jobs": jobs_page,
    "/jobs/{job}": job_page,
    "/jobs/{job}/why": why_page,
    "/jobs/{job}/curves": job_curves,
    "/jobs/{job}/output": job_output,
    "/jobs/{job}/output/{stream}": download,
    "/jobs/{job}/output/{stream}/search": output_search,
    "/gpus/{uuid}": gpu_page,
    "/gpus/{uuid}/curves": gpu_curves,
    "/queues": queues_page,
    PAGE: for_administrators(administration_page),
    FILES: for_administrators(files_page),
    f"{FILES}/{{file}}": for_administrators(file_page),
    f"{PAGE}/log": for_administrators(audit_page),
}
WRITTEN: dict[str, Deed] = {
    "/deeds": do_deed,
    "/new": submit_job,
    f"{PAGE}/hosts": by_administrators(control_hosts),
    f"{PAGE}/queues": by_administrators(control_queues),
    f"{PAGE}/apply": by_administrators(apply_files),
    f"{FILES}/{{file}}": by_administrators(change_file),
}
BEFORE_WRITING: dict[str, WebPage] = {"/new": new_job, "/new/line": job_line, "/new/when": start_outlook}
"""Pages that change nothing, and are of no use where nothing can be changed."""


def new_application(
    context: WebContext, sessions: WebSessions, cookie: str, on_entered: Callable[[], object]
) -> ASGIApp:
    """The whole of it, to be served to the browser of this machine. `cookie`: the name of the session's."""
    login = LoginPages(context, sessions, cookie, on_entered)
    routes = [Route("/enter", _threaded(login.enter), methods=["GET"])]
    if context.may_leave:
        routes.append(Route("/leave", _leaving(context, login), methods=["POST"]))
    services = ServiceSessions()
    if context.has_services:
        routes.append(_service_route(context, open_service(services, OWN_SERVICES)))
    pages = Gate(
        _inner(context, routes),
        by_cookie(sessions, cookie),
        OWN_PLACE,
        is_public=lambda path: path == "/enter" or path.startswith("/assets/"),
        wants_login=lambda scope: login.wanted(Request(scope)),
    )
    if context.services is None:
        return pages
    return ServiceGate(pages, context, context.services, services, f"{cookie}_service", OWN_SERVICES)


def application_behind_front(
    context: WebContext,
    place: WebPlace,
    find: FindSession,
    services_at: ServicePlace,
    cookie: str,
    alias_of: AliasOf,
) -> ASGIApp:
    """The same behind the front of a shared cluster, which lets people in and out and has found the session. `cookie`:
    the name of the services'; `alias_of`: what the front wants in it.
    """
    services = ServiceSessions()
    opening = open_service(services, services_at, alias_of)
    routes = [_service_route(context, opening)] if context.has_services else []
    pages = Gate(
        _inner(context, routes),
        find,
        place,
        is_public=lambda path: False,
        wants_login=lambda scope: PlainTextResponse("Only the front is served here.\n", 401),
    )
    if context.services is None:
        return pages
    return ServiceGate(pages, context, context.services, services, cookie, services_at, alias_of)


def _service_route(context: WebContext, opening: WebPage) -> Route:
    return Route("/jobs/{job}/service", _reading(context, opening), methods=["GET"])


def _inner(context: WebContext, routes: list[Route]) -> Starlette:
    routes = [
        *routes,
        Route("/assets/{name}", _threaded(context.assets.serve), methods=["GET"]),
        Route("/live", _live(context), methods=["GET"]),
        *(Route(path, _reading(context, page), methods=["GET"]) for path, page in READ.items()),
    ]
    if not context.is_read_only:
        routes += [
            *(Route(path, _reading(context, page), methods=["GET"]) for path, page in BEFORE_WRITING.items()),
            *(Route(path, _writing(context, deed), methods=["POST"]) for path, deed in WRITTEN.items()),
        ]
    handlers: dict[int | type[Exception], Callable[[Request, Exception], Awaitable[Response]]] = {
        404: _nothing,
        405: _nothing,
        500: _fault(context),
    }
    return Starlette(routes=routes, lifespan=_lifespan(context), exception_handlers=handlers)


def _lifespan(context: WebContext) -> Callable[[Starlette], contextlib.AbstractAsyncContextManager[None]]:
    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        context.hub.begin()
        yield

    return lifespan


def _threaded(page: Callable[[Request], Response]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(page, request)

    return endpoint


def _reading(context: WebContext, page: WebPage) -> Endpoint:
    def answer(request: Request) -> Response:
        try:
            return page(context, request)
        except GschedError as error:
            return show_error(context, request, error)

    return _threaded(answer)


def _writing(context: WebContext, deed: Deed) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        try:
            fields = await read_form(request)
            return await run_in_threadpool(deed, context, request, fields)
        except GschedError as error:
            return await run_in_threadpool(show_error, context, request, error)

    return endpoint


def _leaving(context: WebContext, login: LoginPages) -> Endpoint:
    return _writing(context, lambda _, request, fields: login.leave(request))


def _live(context: WebContext) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        return await live_stream(context, request)

    return endpoint


def _fault(context: WebContext) -> Callable[[Request, Exception], Awaitable[Response]]:
    """What is wrong stands on the standard error of this process, not on a page."""

    async def handle(request: Request, _: Exception) -> Response:
        return await run_in_threadpool(show_error, context, request, Internal("internal error of gsched web"))

    return handle


async def _nothing(request: Request, error: Exception) -> Response:
    return PlainTextResponse("There is nothing here.\n", getattr(error, "status_code", 404))
