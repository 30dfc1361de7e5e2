"""A blocking client for reading nodes in bulk: for executors, which have no event loop. Standard library only.

It runs an event loop of its own as long as it waits for an answer, so it can't be used on the thread of another one.

One connection, one request ahead of the decoding: while the caller works on a page, the node makes the next. Reads change
nothing, so whatever was lost on the way is requested again, from where the last whole answer ended.
"""

import asyncio
from asyncio import new_event_loop
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeVar

from qmq.clock import SYSTEM_RANDOM, sleep
from qmq.errors import CallTimeout, ConnectionLost, ProtocolError, QmqError, ReadRefused
from qmq.net.caller import Caller
from qmq.net.discovery import find_metaserver, meta_url, meta_urls, split_address
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
from qmq.protocol.frames import Frame
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
ANSWER_BYTES_MAX = 64 << 20
"""Largest accepted answer: a node may be configured for larger messages than by default."""

Ahead = tuple[Caller, "asyncio.Future[Frame]"]
"""A request that was sent ahead: its connection, and the answer."""
T = TypeVar("T")
Page = TypeVar("Page", IndexPage, ProgressPage, MessagesPage, SchedulePage)
_ENTRY_BYTES: dict[type[Structure], int] = {
    IndexPage: INDEX_ENTRY_BYTES,
    ProgressPage: PROGRESS_ENTRY_BYTES,
    MessagesPage: INDEX_ENTRY_BYTES,
    SchedulePage: SCHEDULE_ENTRY_BYTES,
}


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
        self._loop: asyncio.AbstractEventLoop | None = None
        self._caller: Caller | None = None

    def __enter__(self) -> "NodeReader":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a later request opens another."""
        if self._loop is not None:
            if self._caller is not None:
                self._run(self._caller.close())
            self._loop.close()
        self._loop = self._caller = None

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

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        # Not `asyncio.Runner`: on the main thread it sets a signal handler in each call, and formats the answer for it.
        self._loop = self._loop or new_event_loop()
        return self._loop.run_until_complete(work)

    def _pages(self, command: Command, request: ReadRequest | ReadScheduleRequest, kind: type[Page]) -> Iterator[Page]:
        at, end = request.begin, request.end
        ahead: Ahead | None = None
        while at < end:
            body = replace(request, begin=at).encode()
            page, ahead = kind.decode(self._answer(command, body, ahead).body), None
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
            if at < end:
                with suppress(ConnectionLost):
                    ahead = self._run(self._send(command, replace(request, begin=at).encode()))
            yield page

    async def _send(self, command: Command, body: bytes) -> Ahead:
        """Send a request, on a new connection if there is none. Raises ConnectionLost."""
        if self._caller is None or not self._caller.is_connected:
            caller = Caller(self._host, self._port, connect_seconds=CONNECT_SECONDS, frame_bytes_max=ANSWER_BYTES_MAX)
            await caller.connect()
            self._caller = caller
        answer = self._caller.call_soon(command, body)
        # A reader that stops in the middle does not wait for it: asyncio would log that it failed.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        return self._caller, answer

    async def _receive(self, command: Command, body: bytes, ahead: Ahead | None) -> Frame:
        """The answer to a request, which was sent `ahead` on the connection that is open, or is sent now."""
        if ahead is None or ahead[0] is not self._caller:
            ahead = await self._send(command, body)
        caller, answer = ahead
        try:
            return await caller.answer(answer, command, timeout_s=self._answer_seconds)
        except ConnectionLost as error:
            if isinstance(error.__cause__, ProtocolError):
                # It would send the same again.
                raise error.__cause__ from None
            raise

    def _answer(self, command: Command, body: bytes, ahead: Ahead | None) -> Frame:
        """The answer to a request, which was sent `ahead`, or is sent now."""
        failures = busy = 0
        while True:
            try:
                return self._checked(command, self._run(self._receive(command, body, ahead)))
            except QmqError as error:
                if isinstance(error, ReadRefused):
                    busy += 1
                else:
                    self.close()
                    failures += 1
                if not error.retriable or failures >= self._attempts_max or busy >= BUSY_ATTEMPTS_MAX:
                    raise
            ahead = None
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


def metaserver_address(meta: str) -> str:
    """The metaserver's `host:port` from its address page. Raises SettingError for an invalid `meta`, or ConnectionLost."""
    with closing(new_event_loop()) as loop:
        host, port = loop.run_until_complete(find_metaserver(meta_url(meta), timeout_s=CONNECT_SECONDS))
    return f"{host}:{port}"


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
