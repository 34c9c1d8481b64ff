"""Who sees these pages: administrators of the cluster, in a private cluster its owner, by the master's word."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from gsched.base.errors import PermissionDenied
from gsched.web.access.form_reading import Fields
from gsched.web.pages.page_context import WebContext, WebPage

NOT_FOR_YOU = "this is for administrators of the cluster ({})"
AdminDeed = Callable[[WebContext, Request, Fields], Response]


def check_administrator(context: WebContext) -> None:
    """Raise PermissionDenied unless the master says that this user is one. It is asked anew each time."""
    cluster = context.client.cluster()
    if not cluster.may_administer:
        raise PermissionDenied(NOT_FOR_YOU.format(", ".join(cluster.administrators)))


def for_administrators(page: WebPage) -> WebPage:
    """The page, for nobody else."""

    def checked(context: WebContext, request: Request) -> Response:
        check_administrator(context)
        return page(context, request)

    return checked


def by_administrators(deed: AdminDeed) -> AdminDeed:
    """The deed, by nobody else."""

    def checked(context: WebContext, request: Request, fields: Fields) -> Response:
        check_administrator(context)
        return deed(context, request, fields)

    return checked
