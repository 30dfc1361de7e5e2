"""A blocking client for reading nodes in bulk: for executors, which have no event loop. Standard library only.

One connection, one request ahead of the decoding: while the caller works on a page, the node makes the next. Reads change
nothing, so whatever was lost on the way is requested again, from where the last whole answer ended.
"""

import http.client
import socket
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import TypeVar
from urllib.parse import urlsplit

from qmq.clock import SYSTEM_CLOCK, SYSTEM_RANDOM, sleep
from qmq.errors import CallTimeout, ConnectionLost, ProtocolError, QmqError, ReadRefused, Unreachable
from qmq.net.discovery import failure_reason, meta_url, meta_urls, split_address
from qmq.protocol.bulk_read import (
    GROUP_CURSOR,
    INDEX_ENTRY_BYTES,
    PROGRESS_ENTRY_BYTES,
    READ_BYTES_MAX,
    RETRIABLE,
    SCHEDULE_ENTRY_BYTES,
    UNBOUNDED_MS,
    EntriesPage,
    GroupRange,
    HourCounts,
    HoursPage,
    IndexPage,
    ListHoursRequest,
    ListNodesRequest,
    ListRangesRequest,
    MessagesPage,
    NodesPage,
    ProgressPage,
    RangesPage,
    ReadRequest,
    ReadScheduleRequest,
    SchedulePage,
    SubjectRange,
)
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.extensions import Refusal
from qmq.protocol.frames import Frame, FrameReader, encode_request
from qmq.protocol.structures import Structure

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 60.0
"""Time limit for one answer; a node that throttles bulk reads delays them by some seconds."""
ATTEMPTS_MAX = 6
"""Maximum number of attempts of a request before its last error is raised."""
BUSY_ATTEMPTS_MAX = 60
"""Attempts of a request that the node answers with "busy", about two minutes, before that error is raised."""
BACKOFF_SECONDS_FIRST = 0.1
BACKOFF_SECONDS_MAX = 3.0
STRAY_ANSWERS_MAX = 100
"""Number of consecutive unexpected answers after which the connection is closed."""
ADDRESS_BYTES_MAX = 1_000
ANSWER_BYTES_MAX = 64 << 20
"""Largest accepted answer: a node may be configured for larger messages than by default."""

Page = TypeVar("Page", IndexPage, ProgressPage, MessagesPage, SchedulePage)
_ENTRY_BYTES: dict[type[Structure], int] = {
    IndexPage: INDEX_ENTRY_BYTES,
    ProgressPage: PROGRESS_ENTRY_BYTES,
    MessagesPage: INDEX_ENTRY_BYTES,
    SchedulePage: SCHEDULE_ENTRY_BYTES,
}


class _Connection:
    """A socket and what was sent on it. Errors leave it closed."""

    def __init__(self, host: str, port: int) -> None:
        self.address = f"{host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), timeout=CONNECT_SECONDS)
        except (OSError, UnicodeError) as error:
            # UnicodeError: a host name that can't be one, such as one with a label of over 63 characters.
            raise Unreachable(self.address, failure_reason(error, CONNECT_SECONDS)) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frames = FrameReader(ANSWER_BYTES_MAX)
        self._ready: deque[Frame] = deque()
        self._opaque = 0
        self.unanswered: set[int] = set()

    def send(self, command: Command, body: bytes, seconds: float) -> int:
        """Send a request; the number its answer carries. Raises ConnectionLost."""
        self._opaque = (self._opaque + 1) & 0x7FFFFFFF
        self._socket.settimeout(seconds)
        try:
            self._socket.sendall(encode_request(command, self._opaque, body))
        except OSError as error:
            raise ConnectionLost(f"the connection to {self.address} ended: {error}") from error
        self.unanswered.add(self._opaque)
        return self._opaque

    def receive(self, opaque: int, seconds: float) -> Frame:
        """The answer with this number; others belong to abandoned requests. Raises CallTimeout, ConnectionLost, ProtocolError."""
        deadline = SYSTEM_CLOCK.monotonic() + seconds
        for _ in range(STRAY_ANSWERS_MAX):
            while not self._ready:
                self._fill(deadline, seconds)
            frame = self._ready.popleft()
            self.unanswered.discard(frame.opaque)
            if frame.is_response and frame.opaque == opaque:
                return frame
        raise ProtocolError(f"{self.address} sent an unexpected response")

    def _fill(self, deadline: float, seconds: float) -> None:
        left = deadline - SYSTEM_CLOCK.monotonic()
        if left <= 0:
            raise CallTimeout(f"{self.address} did not respond within {seconds:g} s")
        self._socket.settimeout(left)
        try:
            size = self._socket.recv_into(self._frames.get_buffer())
        except TimeoutError as error:
            raise CallTimeout(f"{self.address} did not respond within {seconds:g} s") from error
        except OSError as error:
            raise ConnectionLost(f"the connection to {self.address} ended: {error}") from error
        if not size:
            raise ConnectionLost(f"{self.address} closed the connection")
        self._ready.extend(self._frames.buffer_updated(size))

    def close(self) -> None:
        self._socket.close()


class NodeReader:
    """Reads one node. Not for several threads at a time; connects with the first request.

    Args:
        address, token: the node's `host:port` and its `read_token`.
        answer_seconds, bytes_max: limits of one answer: seconds, and bytes of entries and messages.
        attempts_max, wait: attempts of one request before its last error is raised, and what lets time pass between them.
    """

    def __init__(
        self,
        address: str,
        *,
        token: str = "",
        answer_seconds: float = ANSWER_SECONDS,
        bytes_max: int = READ_BYTES_MAX,
        attempts_max: int = ATTEMPTS_MAX,
        wait: Callable[[float], None] = sleep,
    ) -> None:
        self.address = address
        self._host, self._port = _host_and_port(address)
        self._token = token
        self._answer_seconds = answer_seconds
        self._bytes_max = bytes_max
        self._attempts_max = attempts_max
        self._wait = wait
        self._connection: _Connection | None = None

    def __enter__(self) -> "NodeReader":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a later request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # --- requests --------------------------------------------------------------------------------------------------

    def range_pages(self, from_ms: int = UNBOUNDED_MS, to_ms: int = UNBOUNDED_MS) -> Iterator[RangesPage]:
        """What a broker node holds, page by page; `read_at_ms` of the first holds for all.

        Raises:
            ReadRefused: the node refuses, and would refuse the same request again.
            QmqError: the node can't be reached, or does not answer, in `attempts_max` attempts.
        """
        yield from self._range_pages(ListRangesRequest(self._token, from_ms=from_ms, to_ms=to_ms))

    def _range_pages(self, request: ListRangesRequest) -> Iterator[RangesPage]:
        while True:
            page = RangesPage.decode(self.call(Command.LIST_RANGES, request.encode()).body)
            yield page
            if not page.next_after:
                return
            request = replace(request, after=page.next_after)

    def ranges(self, from_ms: int = UNBOUNDED_MS, to_ms: int = UNBOUNDED_MS) -> Iterator[SubjectRange]:
        """The subjects of `range_pages`, each once with all its groups."""
        held: SubjectRange | None = None
        for page in self.range_pages(from_ms, to_ms):
            for subject in page.subjects:
                if held is not None and held.name == subject.name:
                    held = replace(held, groups=held.groups + subject.groups)
                    continue
                if held is not None:
                    yield held
                held = subject
        if held is not None:
            yield held

    def groups(self, subject: str, from_ms: int) -> Iterator[GroupRange]:
        """The groups of one subject, by name; none when the node has no such subject. Raises: as `range_pages`."""
        request = ListRangesRequest(self._token, after=f"{subject}{GROUP_CURSOR}", limit=1, from_ms=from_ms)
        for page in self._range_pages(request):
            for found in page.subjects:
                if found.name == subject:
                    yield from found.groups
            if not page.next_after.startswith(request.after):
                return

    def index(self, subject: str, begin: int, end: int) -> Iterator[EntriesPage]:
        """Index entries of consume sequences [begin, end), 32 bytes each. Raises: as `range_pages`.

        Pages follow each other without holes but for what retention took: a page's `first` is then above the end of the page before
        (of `begin`, for the first), and the last page may be empty. What is not stored yet is left out at the end.
        """
        request = ReadRequest(subject, begin, end, token=self._token, bytes_max=self._bytes_max)
        return self._pages(Command.READ_INDEX, request, IndexPage)

    def progress(self, subject: str, group: str, begin: int, end: int) -> Iterator[EntriesPage]:
        """Entries [begin, end) of a group's history, 48 bytes each; otherwise as `index`."""
        request = ReadRequest(subject, begin, end, group=group, token=self._token, bytes_max=self._bytes_max)
        return self._pages(Command.READ_PROGRESS, request, ProgressPage)

    def messages(self, subject: str, begin: int, end: int) -> Iterator[MessagesPage]:
        """Index entries of [begin, end) with their raw messages; otherwise as `index`."""
        request = ReadRequest(subject, begin, end, token=self._token, bytes_max=self._bytes_max)
        return self._pages(Command.READ_MESSAGES, request, MessagesPage)

    def hours(self) -> tuple[list[HourCounts], list[str]]:
        """A delay node's hours of due time, and the names of its subjects by their numbers. Raises: as `range_pages`."""
        hours: list[HourCounts] = []
        names: list[str] = []
        after = -1
        while True:
            request = ListHoursRequest(self._token, after, subjects_from=len(names))
            page = HoursPage.decode(self.call(Command.LIST_HOURS, request.encode()).body)
            fresh = [hour for hour in page.hours if hour.hour > after]
            hours += fresh
            names += page.subjects
            if fresh:
                after = fresh[-1].hour
            if page.next_after < 0 and (len(names) >= page.subjects_count or not page.subjects):
                return hours, names

    def schedule(self, hour: int, begin: int, end: int, *, with_data: bool = False) -> Iterator[SchedulePage]:
        """Messages [begin, end) of one hour by number; raw messages only `with_data`. Raises: as `range_pages`."""
        request = ReadScheduleRequest(hour, begin, end, with_data, token=self._token, bytes_max=self._bytes_max)
        return self._pages(Command.READ_SCHEDULE, request, SchedulePage)

    def nodes(self) -> NodesPage:
        """Every node that a metaserver knows of. Raises: as `range_pages`."""
        return NodesPage.decode(self.call(Command.LIST_NODES, ListNodesRequest(self._token).encode()).body)

    def call(self, command: Command, body: bytes) -> Frame:
        """One request and its answer. Raises: as `range_pages`."""
        return self._answer(command, body, None)

    # --- inside ----------------------------------------------------------------------------------------------------

    def _pages(self, command: Command, request: ReadRequest | ReadScheduleRequest, kind: type[Page]) -> Iterator[Page]:
        at, end = request.begin, request.end
        ahead: tuple[_Connection, int] | None = None
        while at < end:
            body = replace(request, begin=at).encode()
            page = kind.decode(self._answer(command, body, ahead).body)
            entries = page.data if isinstance(page, EntriesPage) else page.entries
            count, expected = len(entries) // _ENTRY_BYTES[kind], at
            if page.first < expected or page.first + count > end:
                self.close()
                raise ProtocolError(
                    f"{self.address} returned entries [{page.first}, {page.first + count}) instead of"
                    f" [{expected}, {end})"
                )
            at = page.first + count
            if not count:
                if page.first > expected:
                    yield page
                return
            # The node makes the next answer while the caller decodes this one.
            ahead = self._send_ahead(command, replace(request, begin=at).encode()) if at < end else None
            yield page

    def _send_ahead(self, command: Command, body: bytes) -> tuple[_Connection, int] | None:
        """Send a request; return its connection and number, or None when that failed: `_answer` tries again."""
        connection = self._connection
        assert connection is not None
        try:
            return connection, connection.send(command, body, self._answer_seconds)
        except ConnectionLost:
            self.close()
            return None

    def _answer(self, command: Command, body: bytes, ahead: tuple[_Connection, int] | None) -> Frame:
        """The answer to a request, which was sent `ahead`, or is sent now.

        One sent ahead counts only while its answer can still arrive: on this connection, and not during another request.
        """
        failures = busy = 0
        while True:
            try:
                if self._connection is None:
                    self._connection = _Connection(self._host, self._port)
                connection = self._connection
                if ahead is not None and ahead[0] is connection and ahead[1] in connection.unanswered:
                    number = ahead[1]
                else:
                    number = connection.send(command, body, self._answer_seconds)
                return self._checked(command, connection.receive(number, self._answer_seconds))
            except QmqError as error:
                if isinstance(error, ReadRefused):
                    busy += 1
                else:
                    self.close()
                    failures += 1
                if not error.retriable or failures >= self._attempts_max or busy >= BUSY_ATTEMPTS_MAX:
                    raise
            # Random, so that executors that a node rejected do not return at the same time.
            longest = min(BACKOFF_SECONDS_MAX, BACKOFF_SECONDS_FIRST * 2 ** min(failures + busy, 10))
            self._wait(longest * SYSTEM_RANDOM.uniform(0.5, 1.0))

    def _checked(self, command: Command, frame: Frame) -> Frame:
        if frame.code == ResponseCode.SUCCESS:
            return frame
        if frame.code == ResponseCode.PARAM_ERROR:
            refusal = Refusal.decode(frame.body)
            code = refusal.code or ReadRefused.code
            raise ReadRefused(f"{self.address}: {refusal.message}", code=code, retriable=code in RETRIABLE)
        if frame.code == ResponseCode.UNKNOWN_CODE:
            raise ReadRefused(
                f"{self.address} does not support {command.name}: it is another kind of node or an older version",
                code="reading.unsupported",
            )
        raise ReadRefused(f"{self.address} returned code {frame.code} to {command.name}; see its log for the reason")


def metaserver_address(meta: str, *, timeout_s: float = CONNECT_SECONDS) -> str:
    """The metaserver's `host:port` from its address page. Raises SettingError for an invalid `meta`, or ConnectionLost."""
    url = meta_url(meta)
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        connection.request("GET", parts.path)
        answer = connection.getresponse()
        text = answer.read(ADDRESS_BYTES_MAX).decode("latin-1").strip()
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(url, failure_reason(error, timeout_s)) from error
    finally:
        connection.close()
    if answer.status == 200:
        with suppress(ProtocolError):
            split_address(text)
            return text
    raise ConnectionLost(f"{url} answered {answer.status} {text[:80]!r}; a metaserver returns host:port")


def find_nodes(meta: str, *, token: str = "") -> NodesPage:
    """Every node of a system, by the first of its metaservers that answers; several are separated by commas.

    Raises: as `metaserver_address` and `NodeReader.nodes`, for the last one.
    """
    *others, last = meta_urls(meta)
    for url in others:
        with suppress(ConnectionLost, CallTimeout):
            return _nodes_of(url, token)
    return _nodes_of(last, token)


def _nodes_of(url: str, token: str) -> NodesPage:
    with NodeReader(metaserver_address(url), token=token) as reader:
        return reader.nodes()


def _host_and_port(address: str) -> tuple[str, int]:
    try:
        host, port = split_address(address)
    except ProtocolError as error:
        what = f"{address[:80]!r} is not the address of a node, such as 10.0.0.7:20881"
        raise ReadRefused(what, code="reading.address") from error
    return host.strip("[]"), port
