"""Containers as files give them: CONTAINER of queues and profiles, the site's tables of mounts and images of lsf.conf.

Their forms are the business of gsched.model.queues.container.
"""

from __future__ import annotations

from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import show
from gsched.config.grammar.values import KeyValues
from gsched.model.queues.container import read_site_container


def site_container(text: str) -> str:
    """The text. Raises BadRequest when it is not of a form that is understood."""
    read_site_container(text)
    return " ".join(text.split())


def container_mounts(settings: KeyValues) -> tuple[str, ...]:
    """GSCHED_CONTAINER_MOUNTS: what users may mount, and all below it; `:ro`: to be read alone."""
    return settings.take("GSCHED_CONTAINER_MOUNTS", _mounts, ())


def container_images(settings: KeyValues) -> tuple[str, ...] | None:
    """GSCHED_CONTAINER_IMAGES: patterns of the images that users may have; None: any."""
    return settings.take("GSCHED_CONTAINER_IMAGES", _images, None)


def _mounts(text: str) -> tuple[str, ...]:
    found = []
    for word in text.split():
        if not word.startswith("/") or word.removesuffix(":ro").count(":"):
            raise BadRequest(f"'{show(word)}' is not of the form /FOLDER[:ro]")
        path = word.removesuffix(":ro")
        read_only = ":ro" if word != path else ""
        found.append((path.rstrip("/") or "/") + read_only)
    return tuple(found)


def _images(text: str) -> tuple[str, ...]:
    return tuple(text.split())
