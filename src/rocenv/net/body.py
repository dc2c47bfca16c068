"""Read response bodies as they arrive, and resume them after an interruption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.errors import FetchError
from rocenv.core.logins import shown
from rocenv.net.errors import TransientError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import requests

CHUNK_BYTES = 256 * 1024


def body_chunks(response: requests.Response) -> Iterator[bytes]:
    """Yield the bytes of a body as stored on the server, never decoded: a `.gz` stays compressed.

    They are yielded on arrival, so none are lost when the connection breaks.
    """
    while chunk := response.raw.read1(CHUNK_BYTES, decode_content=False):
        yield chunk


def strong_etag(headers: Mapping[str, str]) -> str:
    """Return the ETag of a response, or "" if it is weak, because weak ones must not be used with ranges.

    Source: RFC 9110 13.1.5
    """
    etag = headers.get("ETag", "")
    return "" if etag.startswith("W/") else etag


def require_range(url: str, response: requests.Response, first_byte: int) -> None:
    """Raise TransientError if the range in a response does not start at `first_byte`."""
    stated = response.headers.get("Content-Range", "")
    if not stated.lower().startswith(f"bytes {first_byte}-"):
        raise TransientError(
            f"`{shown(url)}` sent a different byte range than requested", code="range-refused"
        )


class Body:
    """A small file's body as received so far; it is resumed only if an ETag or a hash identifies the file."""

    def __init__(self, limit_bytes: int, *, hashed: bool = False) -> None:
        self.content = bytearray()
        self._hashed = hashed
        self._limit_bytes = limit_bytes
        self._etag = ""
        self._resumes = True

    def resume_headers(self) -> dict[str, str]:
        """Return the headers that request the remaining bytes, if the download can be resumed."""
        if not (self.content and (self._etag or self._hashed) and self._resumes):
            return {}
        headers = {"Range": f"bytes={len(self.content)}-"}
        return {**headers, "If-Range": self._etag} if self._etag else headers

    def begin(self, url: str, response: requests.Response) -> None:
        """Continue with the response, or start over if it begins at the first byte."""
        if response.status_code == 206:
            require_range(url, response, len(self.content))
        else:
            self.content.clear()
        # A date cannot distinguish two files written in the same second, and the hash may be unknown.
        self._etag = strong_etag(response.headers)

    def add(self, url: str, chunk: bytes) -> None:
        """Append a chunk; raise FetchError if the file exceeds its size limit."""
        self.content += chunk
        if len(self.content) > self._limit_bytes:
            raise FetchError(
                f"`{shown(url)}` is larger than the limit of {self._limit_bytes} bytes",
                code="too-large",
            )

    def start_over(self) -> None:
        """Discard the content, and request the whole file next time."""
        self.content.clear()
        self._resumes = False
