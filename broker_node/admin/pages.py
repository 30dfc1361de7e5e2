"""A broker's pages of its admin HTTP server: /stats, messages, search, traces, groups and subjects (docs/reference/admin.md)."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web

from broker_node.admin.caller_scans import CALLER_CHARS_MAX, CallerScans
from broker_node.admin.client_pages import ClientPages
from broker_node.admin.filtered_search import FilteredSearches
from broker_node.admin.find import find
from broker_node.admin.group_pages import GroupPages
from broker_node.admin.newest import newest_first
from broker_node.admin.search import (
    FOUND_MESSAGES_MAX,
    ID_SCAN_BYTES_MAX,
    ID_SCAN_MESSAGES_MAX,
    Criteria,
    Scan,
    scan,
)
from broker_node.admin.stats import STATS_SUBJECTS_MAX, encoded, encoded_page, subject_pages
from broker_node.admin.subject_pages import SubjectPages
from broker_node.admin.trace import trace
from broker_node.admin.view import NodeView, reported
from broker_node.storage.subject import Subject
from qmq_node.admin.server import BadRequest, JsonHandler, JsonPost, Params, by_query
from qmq_node.admin.shared_page import SharedPages
from qmq_node.admin.shown_properties import masks_of
from qmq_node.filters import Filter, FilterError, compile_filters
from qmq_node.policy import NO_RULES

SEARCH_PARAMETERS = (
    "filter",
    "order",
    "sequence",
    "until_sequence",
    "from_time",
    "to_time",
    "limit",
    "masks",
    "caller",
)
NEWEST, OLDEST = "newest", "oldest"
FILTERS_MAX = 4
"""Most filters of one search; a message must match all of them."""

PAGE_PARAMETERS = ("order", "sequence", "until_sequence", "from_time", "to_time", "message_id", "limit", "masks")
FIND_PARAMETERS = ("message_id", "from_time", "to_time", "offset")
FIND_SPAN_MS_MAX = 24 * 3_600_000
"""Longest window of time in which messages are found by their IDs alone."""
PAGE_MESSAGES = 50
"""Messages of a page without a `limit`."""
SCANS_MAX = 2
"""Searches and traces that run at the same time; they use the threads that read cold pulls."""
BROWSES_MAX = 2
"""Pages of messages that are read at the same time; further requests wait, as many as the server has connections."""
CHANGES_PAGES_MAX = 8
"""Answers with changes that are kept for further requests with the same cursor."""


class BrokerPages:
    """The pages of one broker."""

    def __init__(self, view: NodeView) -> None:
        self._view = view
        groups, subjects = GroupPages(view), SubjectPages(view)
        reading: dict[str, JsonPost] = {
            "/subjects/{subject:[^/]+}/messages": self._messages,
            "/subjects/{subject:[^/]+}/messages/{sequence:[0-9]{1,19}}/trace": self._trace,
        }
        self.routes: dict[str, JsonHandler] = {
            "/stats": self._stats,
            "/messages": self._find,
            **{path: by_query(page) for path, page in reading.items()},
            **ClientPages(view).routes,
            **groups.routes,
            **subjects.routes,
        }
        """GET pages by path."""
        # No changes: a filter, and a schema of bodies, may be longer than a line of HTTP.
        self.posts: dict[str, JsonPost] = {
            **reading,
            "/subjects/{subject:[^/]+}/search": self._search,
            **groups.posts,
            **subjects.posts,
        }
        self.searches = FilteredSearches(view.store, view.node.disk, view.node.clock)
        self._scans = 0
        """Searches and traces that run now."""
        self._callers = CallerScans()
        self._browses = asyncio.Semaphore(BROWSES_MAX)
        self._stats_pages = SharedPages(view.node.clock)
        self._changes_pages = SharedPages(view.node.clock, pages_max=CHANGES_PAGES_MAX)

    # --- numbers ---------------------------------------------------------------------------------------------------

    async def _stats(self, request: web.Request) -> bytes:
        query = request.query
        limit = min(Params(query).whole("limit", STATS_SUBJECTS_MAX, minimum=1), STATS_SUBJECTS_MAX)
        if "subject" in query:
            return await self._one_subject(query["subject"])
        after, since = query.get("after", ""), query.get("since", "")
        if since:
            return await self._changes_pages.get((since, limit), lambda: self._changed_subjects(since, limit))
        return await self._stats_pages.get((after, limit), lambda: self._all_subjects(after, limit))

    def _head(self) -> dict[str, Any]:
        view = self._view
        return {
            **view.describe(),
            "at_ms": view.node.clock.wall_ms(),
            "unreadable_messages": len(view.store.message_log.unreadable),
            "deferred_settlements": len(view.delivery.settlements.deferred),
        }

    async def _one_subject(self, name: str) -> bytes:
        view = self._view
        subject = view.store.subjects.get(name)
        head = self._head()
        # Also for a subject that is not stored here yet: whether the node would accept a message.
        head |= {"closed": view.node.policy.subjects.get(name, NO_RULES).closed, "next_after": None}
        return encoded_page("subjects", await subject_pages(view, [subject] if subject is not None else []), head)

    async def _all_subjects(self, after: str, limit: int) -> bytes:
        """A page of all subjects, in the order of their names, and a cursor for what changes from now on."""
        view = self._view
        store, head = view.store, self._head()
        head["cursor"] = f"{view.boot_id}-{view.changes.current()}"
        # One more than the page contains: whether there is a next page.
        names = store.subject_names.page(after, limit + 1)
        page = [store.subjects[name] for name in names[:limit]]
        head["next_after"] = names[limit - 1] if len(names) > limit else None
        return encoded_page("subjects", await subject_pages(view, page), head)

    async def _changed_subjects(self, since: str, limit: int) -> bytes:
        """Subjects that changed since a cursor; the first page of all when the cursor is unknown."""
        view = self._view
        boot_id, _, version = since.rpartition("-")
        is_known = boot_id == view.boot_id and version.isdecimal()
        head = self._head()
        changes = view.changes.since(int(version), limit) if is_known else None
        if changes is None:
            return await self._all_subjects("", limit)
        head |= {
            "since": since,
            "cursor": f"{boot_id}-{changes.version}",
            "has_more": changes.has_more,
            "complete_to_ms": changes.complete_to_ms,
            "removed": changes.removed,
            "next_after": None,
        }
        return encoded_page("subjects", await subject_pages(view, changes.subjects), head)

    # --- messages --------------------------------------------------------------------------------------------------

    async def _subject(self, request: web.Request) -> Subject:
        return await self._view.subject(request.match_info["subject"])

    async def _messages(self, request: web.Request, params: Params) -> bytes:
        store, subject = self._view.store, await self._subject(request)
        params.only(*PAGE_PARAMETERS)
        limit = params.whole("limit", PAGE_MESSAGES, minimum=1)
        if (order := _order(params, OLDEST)) == NEWEST:
            return await self._newest(subject, params, limit)
        _refuse(params, order, "until_sequence", "to_time")
        sequence = params.whole("sequence", 0, minimum=0)
        message_id, masks = params.text("message_id", "") or None, masks_of(params)
        if message_id is not None:
            with self._scan_slot():
                done = await scan(
                    store, subject, Criteria(message_id=message_id, masks=masks), sequence, subject.visible_end,
                    limit=FOUND_MESSAGES_MAX, scan_limit=ID_SCAN_MESSAGES_MAX, bytes_max=ID_SCAN_BYTES_MAX,
                )  # fmt: skip
            return await _messages_page(subject, done, subject.begin, subject.visible_end, done.next_sequence)
        async with self._browses:
            with reported():
                if params.has("from_time"):
                    sequence = await subject.find_time(params.moment_ms("from_time"))
                criteria = Criteria(with_unreadable=True, masks=masks)
                done = await scan(
                    store, subject, criteria, sequence, subject.visible_end, limit=limit, scan_limit=FOUND_MESSAGES_MAX
                )
        return await _messages_page(subject, done, subject.begin, subject.visible_end, done.next_sequence)

    async def _newest(self, subject: Subject, params: Params, limit: int) -> bytes:
        """A page of messages below a sequence or a time, the newest first; `next_sequence` is `until_sequence` of the next page."""
        _refuse(params, "newest", "sequence", "from_time", "message_id")
        masks = masks_of(params)
        async with self._browses:
            with reported():
                until = params.whole("until_sequence", subject.visible_end, minimum=0)
                if params.has("to_time"):
                    until = min(until, await subject.find_time(params.moment_ms("to_time")))
                found = await newest_first(self._view.store, subject, until, limit=limit, masks=masks)
        following = found.begin if found.begin > subject.begin else None
        return await _messages_page(subject, found, subject.begin, subject.visible_end, following)

    async def _find(self, request: web.Request) -> dict[str, Any]:
        """Where messages with an ID are that were stored in a window of time, whatever their subjects."""
        params = Params(request.query).only(*FIND_PARAMETERS)
        message_id = params.text("message_id")
        from_ms, to_ms = params.moment_ms("from_time"), params.moment_ms("to_time")
        if not 0 < to_ms - from_ms <= FIND_SPAN_MS_MAX:
            text = f"to_time must be after from_time, by at most {FIND_SPAN_MS_MAX // 3_600_000} hours"
            raise BadRequest(400, "parameter.wrong", text)
        offset = params.whole("offset", 0, minimum=0) if params.has("offset") else None
        with self._scan_slot():
            found = await find(self._view.store, message_id, from_ms, to_ms, offset)
        read_ms = from_ms if found.time_ms is None else found.time_ms
        return {
            "messages": found.places,
            "scanned_bytes": found.scanned_bytes,
            "next_offset": None if found.is_complete else found.reached,
            "progress": 1.0 if found.is_complete else min(1.0, max(0.0, (read_ms - from_ms) / (to_ms - from_ms))),
        }

    async def _search(self, request: web.Request, params: Params) -> bytes:
        params.only(*SEARCH_PARAMETERS)
        subject, now_ms = await self._subject(request), self._view.node.clock.wall_ms()
        try:
            wanted = compile_filters(params.several("filter", FILTERS_MAX), now_ms)
        except FilterError as error:
            raise BadRequest(400, error.code, str(error)) from error
        caller = params.text("caller", "")
        if len(caller) > CALLER_CHARS_MAX:
            text = f"caller has {len(caller)} characters; at most {CALLER_CHARS_MAX} are allowed"
            raise BadRequest(400, "parameter.wrong", text)
        async with self._callers.slot(caller):
            return await self._step(subject, wanted, params, now_ms)

    async def _step(self, subject: Subject, wanted: Filter, params: Params, now_ms: int) -> bytes:
        newest_first, masks = _order(params, NEWEST) == NEWEST, masks_of(params)
        limit = params.whole("limit", PAGE_MESSAGES, minimum=1)
        begin, end = params.whole("sequence", 0, minimum=0), subject.visible_end
        end = min(end, params.whole("until_sequence", end, minimum=0))
        with self._scan_slot():
            if params.has("from_time"):
                begin = max(begin, await subject.find_time(params.moment_ms("from_time")))
            if params.has("to_time"):
                end = min(end, await subject.find_time(params.moment_ms("to_time")))
            done = await self.searches.step(
                subject, wanted, now_ms, begin, end, newest_first=newest_first, limit=limit, masks=masks
            )
        head = {
            "subject": subject.name,
            "begin_sequence": done.begin,
            "end_sequence": done.end,
            "next_sequence": None if done.is_complete else done.reached,
            "scanned": done.scanned,
            "unreadable": done.unreadable,
            "costly": done.costly,
            "expression": wanted.expression,
            "searched": wanted.searched,
        }
        return await asyncio.to_thread(lambda: encoded_page("messages", [encoded(one) for one in done.messages], head))

    async def _trace(self, request: web.Request, params: Params) -> dict[str, Any]:
        subject, sequence = await self._subject(request), int(request.match_info["sequence"])
        group, masks = params.text("group", "") or None, masks_of(params)
        if sequence >= subject.visible_end:
            raise BadRequest(
                404,
                "message.unknown",
                f"subject {subject.name} ends at sequence {subject.visible_end}: {sequence} is not stored",
            )
        if group is not None:
            self._view.group(subject, group)
        with self._scan_slot():
            return await trace(
                self._view.store, subject, sequence, only_group=group, after=params.text("after", ""), masks=masks
            )

    @contextmanager
    def _scan_slot(self) -> Iterator[None]:
        """Occupies one of SCANS_MAX scan slots until the end of the block, and reports the errors of the scan."""
        if self._scans >= SCANS_MAX:
            text = f"{SCANS_MAX} searches or traces are running on this node, the maximum; try again"
            raise BadRequest(503, "scan.busy", text)
        self._scans += 1
        try:
            with reported():
                yield
        finally:
            self._scans -= 1


def _order(params: Params, default: str) -> str:
    order = params.text("order", default)
    if order not in (NEWEST, OLDEST):
        raise BadRequest(400, "parameter.wrong", f"order is {order[:40]!r}; must be {NEWEST} or {OLDEST}")
    return order


def _refuse(params: Params, order: str, *names: str) -> None:
    """Raises BadRequest for a parameter of the other order."""
    for name in filter(params.has, names):
        raise BadRequest(400, "parameter.wrong", f"{name} can't be used with order={order}")


async def _messages_page(subject: Subject, done: Scan, begin: int, end: int, following: int | None) -> bytes:
    """Returns the messages of a scan, in the sequences [begin, end), and where the next page begins."""
    sequences = {"begin_sequence": begin, "end_sequence": end, "next_sequence": following}
    head = {"subject": subject.name, **sequences}
    return await asyncio.to_thread(lambda: encoded_page("messages", [encoded(one) for one in done.messages], head))
