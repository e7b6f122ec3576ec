"""What fake-gcs-server lacks of Google's XML protocol, which the client speaks: put, copy, parts, missing buckets.

Listing, looking, reading and deleting pass as they are. What is put goes to it by Google's JSON protocol, with the
condition of the request. Parts are kept here until they are completed.
"""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import ClassVar, Final
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from tests.storage.stores.proxy import serving

UPLOADS: Final[dict[str, tuple[str, dict[int, bytes]]]] = {}
"""By its id: the path of each upload that is not completed, and its parts."""
_NO_BUCKET: Final = b"<Error><Code>NoSuchBucket</Code></Error>"
_HOP_BY_HOP: Final = {"connection", "transfer-encoding", "content-length", "server", "date", "host"}
Answer = tuple[int, Mapping[str, str], bytes]


@contextmanager
def adapted(upstream: str) -> Iterator[str]:
    """Run the adapter before a fake-gcs-server, and yield its URL."""

    class Handler(_Handler):
        upstream_address = urlsplit(upstream).netloc
        buckets: ClassVar[set[str]] = set()

    with serving(Handler) as url:
        yield url


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    upstream_address: ClassVar[str]
    buckets: ClassVar[set[str]]

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        status, headers, answer = self._answered(body)
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        size = headers.get("Content-Length") if self.command == "HEAD" else None
        self.send_header("Content-Length", size or str(len(answer)))
        self.end_headers()
        if self.command != "HEAD":
            try:
                self.wfile.write(answer)
            except OSError:  # the client waits no longer
                self.close_connection = True

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - the names of http.server

    def _answered(self, body: bytes) -> Answer:
        found = urlsplit(self.path)
        query = parse_qs(found.query, keep_blank_values=True)
        bucket, _, name = unquote(found.path).removeprefix("/").partition("/")
        if found.path == "/storage/v1/b":
            self.buckets.add(json.loads(body)["name"])
        elif not found.path.startswith("/upload/"):
            if bucket not in self.buckets:
                return 404, {}, _NO_BUCKET
            if "uploads" in query:
                UPLOADS[upload := f"upload{len(UPLOADS)}"] = found.path, {}
                return 200, {}, f"<R><UploadId>{upload}</UploadId></R>".encode()
            if "uploadId" in query:
                return self._of_parts(bucket, name, query, body)
            if self.command == "PUT":
                if source := self.headers.get("x-goog-copy-source"):
                    _, _, body = self._passed_on("GET", f"/{source.removeprefix('/')}", b"", {})
                return self._put(bucket, name, body)
        return self._passed_on(self.command, self.path, body, dict(self.headers))

    def _of_parts(self, bucket: str, name: str, query: dict[str, list[str]], body: bytes) -> Answer:
        upload = query["uploadId"][0]
        if "partNumber" in query:
            UPLOADS[upload][1][int(query["partNumber"][0])] = body
            return 200, {"ETag": f'"{query["partNumber"][0]}"'}, b""
        _, parts = UPLOADS.pop(upload)
        if self.command == "DELETE":
            return 204, {}, b""
        named = [int(number) for number in re.findall(rb"<PartNumber>(\d+)</PartNumber>", body)]
        assert named == sorted(parts)
        status, headers, _ = self._put(bucket, name, b"".join(parts[number] for number in named))
        return status, headers, f"<R><ETag>{headers.get('ETag', '')}</ETag></R>".encode()

    def _put(self, bucket: str, name: str, body: bytes) -> Answer:
        query = {"uploadType": "media", "name": name}
        if condition := self.headers.get("x-goog-if-generation-match"):
            query["ifGenerationMatch"] = condition
        path = f"/upload/storage/v1/b/{quote(bucket)}/o?{urlencode(query)}"
        status, headers, answer = self._passed_on("POST", path, body, {"Content-Type": "application/octet-stream"})
        if status != 200:
            return status, headers, answer
        said = json.loads(answer)
        return 200, {"ETag": f'"{said["etag"]}"', "x-goog-generation": str(said["generation"])}, b""

    def _passed_on(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        client = http.client.HTTPConnection(self.upstream_address, timeout=30)
        try:
            kept = {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}
            client.request(method, path, body, kept)
            answer = client.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            client.close()

    def log_message(self, *_: object) -> None:
        """Say nothing."""
