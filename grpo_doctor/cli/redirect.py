"""Follows HTTP redirects, and drops the API key if a redirect leads to another host."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request


class WithoutKey(HTTPRedirectHandler):
    """Follows redirects, and keeps ``Authorization`` only if scheme, host and port stay the same."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        """Return the next request, if any."""
        followed = super().redirect_request(req, fp, code, msg, headers, newurl)
        if followed is not None and _origin(newurl) != _origin(req.full_url):
            followed.remove_header("Authorization")
        return followed


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc
