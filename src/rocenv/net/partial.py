"""The beginning of an artifact on the disk, which any later process can go on from.

Nothing is buffered here, so what was written survives the process. Beside it lies what the server said to
recognise the file by (its strong ETag, else its date): only with that may a server continue it unseen.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING

from rocenv.net import CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocenv.core.model import Artifact
    from rocenv.core.progress import Stage

HEAD_BYTES = 512


class Part:
    """An open `.part` file; whoever makes one holds the artifact's lock, and closes it.

    Args:
        path: Where it lies; continued if it is there already.
        stage: Told of every byte, and of every byte that has to be fetched again.

    Attributes:
        size_bytes: How much of the artifact is there.
        resumed: Whether it holds bytes of more than one connection.
    """

    def __init__(self, path: Path, stage: Stage) -> None:
        self._path = path
        self._validator_file = path.with_name(f"{path.name}.json")
        self._stage = stage
        self._hash = hashlib.sha256()
        self._file = path.open("a+b", buffering=0)
        self.size_bytes = 0
        self._file.seek(0)
        while chunk := self._file.read(CHUNK_BYTES):
            self._hash.update(chunk)
            self.size_bytes += len(chunk)
        stage.skip(self.size_bytes)
        self.resumed = self.size_bytes > 0

    @property
    def sha256(self) -> str:
        """The hash of what is there."""
        return self._hash.hexdigest()

    def is_proved(self, artifact: Artifact) -> bool:
        """Tell whether this is all of the artifact and nothing else."""
        return self.size_bytes == artifact.size_bytes and artifact.sha256 in ("", self.sha256)

    def is_web_page(self) -> bool:
        """Tell whether it begins as HTML does."""
        self._file.seek(0)
        head = self._file.read(HEAD_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip().lower()
        return head.startswith((b"<!doctype html", b"<html", b"<head", b"<body"))

    def resume_headers(self, url: str) -> dict[str, str]:
        """Return the headers that ask for the rest.

        `If-Range` only to the server that gave the validator; others are held to the hash at the end.
        """
        if not self.size_bytes:
            return {}
        headers = {"Range": f"bytes={self.size_bytes}-"}
        try:
            known = json.loads(self._validator_file.read_bytes())
            if known["url"] == url and known["validator"]:
                headers["If-Range"] = str(known["validator"])
        except (OSError, ValueError, LookupError, TypeError):
            pass  # killed before it was written; the hash decides
        return headers

    def begin(self, url: str, headers: Mapping[str, str]) -> None:
        """Start over with a body from its first byte, and keep what tells later whether it is the same."""
        self.restart()
        etag = headers.get("ETag", "")
        # RFC 9110 13.1.5: a weak ETag must not be used with ranges.
        validator = etag if etag and not etag.startswith("W/") else headers.get("Last-Modified", "")
        # Not in one step: half of it is no JSON, and a staging file would stay behind after a kill.
        self._validator_file.write_text(json.dumps({"url": url, "validator": validator}), encoding="utf-8")

    def restart(self) -> None:
        """Throw away what is there."""
        self._stage.skip(-self.size_bytes)
        self._file.truncate(0)
        self._hash = hashlib.sha256()
        self.size_bytes = 0
        self.resumed = False

    def write(self, chunk: bytes) -> None:
        """Append what came in."""
        left = memoryview(chunk)
        while left:
            left = left[self._file.write(left) :]
        self._hash.update(chunk)
        self.size_bytes += len(chunk)
        self._stage.advance(len(chunk))

    def become(self, final: Path) -> None:
        """Give the proved file its name; it is on the disk before that."""
        os.fsync(self._file.fileno())
        self._file.close()
        self._validator_file.unlink(missing_ok=True)
        os.replace(self._path, final)

    def close(self) -> None:
        """Leave it for a later process."""
        self._file.close()
