"""Export of a whole list as one file: `?format=csv`, `?format=json`, or `Accept: text/csv`.

The list's own view produces the pages, so an export is filtered, ordered, masked and audited like a list, and at most one page is
in memory. Missing rows are reported: in a header where they are known in advance, and always at the end of the file.
"""

import csv
import io
import itertools
import json
import logging
import re
import threading
import time
import unicodedata
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any, ClassVar, Protocol

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder

from api.problems import Problem, invalid
from console.http.requests import client_id, current_id
from qmq.clock import SYSTEM_CLOCK, Clock

logger = logging.getLogger("qmq.api")

FORMATS = {"csv": "text/csv; charset=utf-8", "json": "application/json"}
ROWS_MAX = 100_000
"""Maximum number of rows of one download; its end contains the cursor to continue from."""
ROWS_OF_NODES_MAX = 10_000
"""The same for lists that are read from nodes."""
SECONDS_MAX = 120.0
"""Time after which no further page is requested."""
CHUNK_ROWS = 500
RUNNING_OF_USER_MAX = 3
RUNNING_MAX = 16
"""Maximum number of concurrent downloads of one process; further ones are rejected with 429."""
RUNNING_SECONDS_MAX = 600.0
"""Time after which a download no longer counts as running, since a slow client may still be reading it."""
RETRY_SECONDS = 10
CUT_HEADER, ROWS_HEADER = "X-Download-Cut", "X-Download-Rows-Max"
BOM = "\ufeff"
"""Byte order mark; without it spreadsheets assume another encoding than UTF-8."""
_FORMULA = re.compile(r"\A[\t\r\n]|(?:\A|[;\t\r\n])[^\S\t\r\n]*[-=+@＝＋－＠]")
"""The begin of a cell that spreadsheets evaluate, also one that begins at a separator of other countries' spreadsheets."""
_CHANGED_NUMBER = re.compile(r"0[0-9]+|[0-9]{16,}|[0-9]+[eE][0-9]+")
"""IDs that a spreadsheet would convert to another number."""
_NAME_CHARS_MAX = 100


class DownloadedView(Protocol):
    """What a download needs of the view whose list it contains (`api.base.ApiView`)."""

    download_rows_max: ClassVar[int]
    download_page_rows: ClassVar[int]
    serializer_class: Any
    args: Any
    kwargs: Any

    def whole(self, name: str, default: int | None = None, *, minimum: int = 0) -> int | None:
        """Return a whole number of the query. Raises Problem 400."""

    def handle_exception(self, exc: Exception) -> Response:
        """Return the answer that an error becomes."""


class RunningDownloads:
    """The running downloads of this process, by user. Thread-safe."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._running: dict[int, tuple[object, float]] = {}

    def begin(self, user: object) -> int:
        """Count a download and return its number for `end`.

        Raises:
            Problem: 429, too many are running.
        """
        now = self._clock.monotonic()
        with self._lock:
            for number in [number for number, (_, until) in self._running.items() if until <= now]:
                del self._running[number]
            of_user = sum(owner == user for owner, _ in self._running.values())
            if of_user >= RUNNING_OF_USER_MAX:
                raise _too_many(f"You already have {of_user} running exports")
            if len(self._running) >= RUNNING_MAX:
                raise _too_many(f"{len(self._running)} exports are already running")
            number = next(self._numbers)
            self._running[number] = (user, now + RUNNING_SECONDS_MAX)
            return number

    def end(self, number: int) -> None:
        """Stop counting a download; repeated calls have no effect."""
        with self._lock:
            self._running.pop(number, None)

    def __len__(self) -> int:
        with self._lock:
            return len(self._running)


def _too_many(what: str) -> Problem:
    found = Problem(429, "download.too_many", f"{what}. Try again when one has finished.")
    found.wait = RETRY_SECONDS - 1
    return found


running = RunningDownloads()


class DownloadResponse(StreamingHttpResponse):
    """A file generated while it is sent. `on_end` is called when it was sent or the client disconnected."""

    def __init__(self, chunks: Any, *, content_type: str, on_end: Callable[[], None]) -> None:
        super().__init__(chunks, content_type=content_type)
        self._on_end = on_end

    def close(self) -> None:
        super().close()
        self._on_end()


def wanted(request: Request) -> str | None:
    """Return the requested download format; None: a page is requested. Raises 400 for an unknown format."""
    if request.method not in ("GET", "HEAD"):
        return None
    given = request.query_params.get("format")
    if given is None:
        accepted = {part.partition(";")[0].strip().lower() for part in request.headers.get("Accept", "").split(",")}
        return "csv" if "text/csv" in accepted and "application/json" not in accepted else None
    if given not in FORMATS:
        raise invalid("format", f"must be one of {', '.join(FORMATS)}, or absent for a page", given)
    return given


def cell(value: Any) -> str:
    """Return a value that a spreadsheet neither evaluates as a formula nor converts to another number."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, date):
        return str(JSONEncoder().default(value))
    if not isinstance(value, str):
        value = _json(value)
    visible = value if value.isascii() else "".join(c for c in value if unicodedata.category(c) != "Cf")
    return f"'{value}" if _FORMULA.search(visible) or _CHANGED_NUMBER.fullmatch(visible) else value


def _json(value: Any) -> str:
    return json.dumps(value, cls=JSONEncoder, ensure_ascii=False, separators=(",", ":"))


def _line(cells: list[str]) -> str:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerow(cells)
    return text.getvalue()


class Download:
    """One download. The query's `cursor` is its start, `limit` its maximum number of rows."""

    def __init__(self, view: DownloadedView, request: Request, kind: str) -> None:
        self.kind = kind
        self.rows_max = view.whole("limit", view.download_rows_max, minimum=1) or view.download_rows_max
        self.rows_max = min(self.rows_max, view.download_rows_max)
        self.is_longer: bool | None = None
        """Whether the list has more rows than `rows_max`; None: known only at its end."""
        self._view = view
        self._request = request
        self._until = time.monotonic() + SECONDS_MAX
        self._request_id, self._client_id = current_id.get(), client_id.get()
        self._unreachable: dict[str, str] = {}
        self._rows = 0
        self._number: int | None = None
        self._ask_for(request.query_params.get("cursor"))

    def response(self, first: Mapping[str, Any]) -> StreamingHttpResponse:
        """Return the answer, which starts with the list's first page."""
        if first.get("next") is None:
            self.is_longer = False
        chunks = self._csv(first) if self.kind == "csv" else self._json(first)
        is_async = isinstance(self._request._request, ASGIRequest)
        response = DownloadResponse(
            _threaded(chunks) if is_async else chunks, content_type=FORMATS[self.kind], on_end=self.end
        )
        response.headers["Content-Disposition"] = f'attachment; filename="{self._file_name()}"'
        response.headers[ROWS_HEADER] = str(self.rows_max)
        response.headers[CUT_HEADER] = {None: "unknown", True: "true", False: "false"}[self.is_longer]
        return response

    def begin(self) -> None:
        """Count the download as running. Raises Problem 429 when too many are running."""
        self._number = running.begin(self._request.user.pk)

    def end(self) -> None:
        """Stop counting the download as running."""
        if self._number is not None:
            running.end(self._number)

    def _file_name(self) -> str:
        match = self._request.resolver_match
        words = [match.url_name or "list", *map(str, match.kwargs.values())] if match is not None else ["list"]
        name = re.sub(r"[^A-Za-z0-9._-]+", "_", "-".join(words))[:_NAME_CHARS_MAX]
        return f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}Z.{self.kind}"

    # --- pages ------------------------------------------------------------------------------------------------------------

    def _ask_for(self, cursor: str | None) -> None:
        """Set the query to the page that starts at a cursor."""
        query: Any = self._request.query_params.copy()
        query["limit"] = str(min(self._view.download_page_rows, self.rows_max - self._rows))
        if cursor is not None:
            query["cursor"] = cursor
        self._request._request.GET = query

    def _pages(self, page: Mapping[str, Any]) -> Iterator[tuple[list[Any], dict[str, Any] | None]]:
        """Yield (rows, None) for each page; finally ([], closing note)."""
        why = ""
        while True:
            self._unreachable |= page.get("unreachable") or {}
            self._rows += len(page["results"])
            for begin in range(0, len(page["results"]), CHUNK_ROWS):
                yield page["results"][begin : begin + CHUNK_ROWS], None
            following = page.get("next")
            if following is None:
                break
            if self._rows >= self.rows_max:
                why = f"An export is limited to {self.rows_max} rows. Continue with cursor {following}"
            elif time.monotonic() > self._until:
                why = f"The export reached its time limit of {SECONDS_MAX:g} s. Continue with cursor {following}"
            else:
                self._ask_for(following)
                page, why = self._next(page)
            if why:
                break
        notes = [why] if why else []
        notes += [f"{name} could not be reached: {text}" for name, text in self._unreachable.items()]
        if page.get("reason"):
            notes.append(str(page["reason"]))
        rest = {name: value for name, value in page.items() if name != "results"}
        if "unreachable" in rest:
            rest["unreachable"] = self._unreachable
        if "previous" in rest:
            rest["previous"] = None
        yield [], {**rest, "rows": self._rows, "is_complete": not notes, "notes": notes}

    def _next(self, page: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
        """Return the page of the query; if it can't be read, the previous one and the reason."""
        known, client = current_id.set(self._request_id), client_id.set(self._client_id)
        try:
            answer = self._view.get(self._request, *self._view.args, **self._view.kwargs)  # type: ignore[attr-defined]
        except Exception as error:
            logger.warning("a download ended early", exc_info=True)
            problem = self._view.handle_exception(error)
            return page, f"The remaining rows could not be read: {problem.data['detail']}"
        finally:
            client_id.reset(client)
            current_id.reset(known)
        found: Mapping[str, Any] = answer.data
        return found, ""

    # --- formats ----------------------------------------------------------------------------------------------------------

    def _csv(self, first: Mapping[str, Any]) -> Iterator[bytes]:
        columns = _columns(self._view) or list(first["results"][0] if first["results"] else ())
        yield (BOM + _line(columns)).encode()
        for rows, end in self._pages(first):
            lines = [_line([cell(row.get(name)) for name in columns]) for row in rows]
            lines += [_line([f"# incomplete: {note}"]) for note in (end or {}).get("notes", ())]
            if lines:
                yield "".join(lines).encode()

    def _json(self, first: Mapping[str, Any]) -> Iterator[bytes]:
        yield b'{"results":['
        between = ""
        for rows, end in self._pages(first):
            if rows:
                yield (between + ",\n".join(_json(row) for row in rows)).encode()
                between = ",\n"
            elif end is not None:
                yield f"],{_json(end)[1:]}".encode()


def _columns(view: DownloadedView) -> list[str]:
    """Return the field names of a list's rows; none when the view does not declare them."""
    shape: Any = view.serializer_class() if view.serializer_class is not None else None
    results: Any = shape.fields.get("results") if hasattr(shape, "fields") else None
    fields: Any = getattr(getattr(results, "child", shape), "fields", ())
    return [str(name) for name in fields]


async def _threaded(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The same for an event loop: each chunk is generated in the request's thread."""
    while (chunk := await sync_to_async(lambda: next(chunks, None))()) is not None:
        yield chunk
