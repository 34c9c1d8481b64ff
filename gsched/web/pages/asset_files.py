"""Style sheets, scripts and the icon: read once, each at an address that changes with its contents, so that browsers
keep them. No request names a file: what is not in the table is not there.
"""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from gsched.web.pages.known_contents import is_known, mark_of, not_again

FOLDER = Path(__file__).parent.parent / "assets"
KINDS = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
_FOR_EVER = "private, max-age=31536000, immutable"


class AssetFiles:
    """All of them, plain and compressed."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[str, str, bytes, bytes]] = {}
        self._addresses: dict[str, str] = {}
        for path in sorted(each for each in FOLDER.rglob("*") if each.suffix in KINDS):
            data = path.read_bytes()
            mark = hashlib.sha256(data).hexdigest()[:12]
            name = f"{path.stem}-{mark}{path.suffix}"
            self._files[name] = (KINDS[path.suffix], mark_of(data), data, gzip.compress(data, 9, mtime=0))
            self._addresses[path.name] = f"/assets/{name}"

    def address(self, name: str) -> str:
        """Where the file of that name is found. Raises KeyError."""
        return self._addresses[name]

    def serve(self, request: Request) -> Response:
        """The file that the path names."""
        found = self._files.get(request.path_params["name"])
        if found is None:
            return PlainTextResponse("There is no such file.\n", 404)
        kind, mark, plain, packed = found
        headers = {"cache-control": _FOR_EVER, "vary": "accept-encoding", "etag": mark}
        if is_known(request, mark):
            return not_again(headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(packed, headers={**headers, "content-encoding": "gzip"}, media_type=kind)
        return Response(plain, headers=headers, media_type=kind)
