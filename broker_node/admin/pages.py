"""A broker's pages of its admin HTTP server: /stats, messages, search, traces, groups and subjects (docs/reference/admin.md)."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from aiohttp import web

from broker_node.admin.group_pages import GroupPages
from broker_node.admin.search import (
    CRITERIA_MAX,
    FOUND_MESSAGES_MAX,
    ID_SCAN_BYTES_MAX,
    ID_SCAN_MESSAGES_MAX,
    SCAN_MESSAGES,
    SCAN_MESSAGES_MAX,
    Criteria,
    Scan,
    scan,
)
from broker_node.admin.stats import STATS_SUBJECTS_MAX, encoded, encoded_page, subject_pages
from broker_node.admin.subject_pages import SubjectPages
from broker_node.admin.trace import trace
from broker_node.admin.view import NodeView, reported
from broker_node.storage.subject import Subject
from qmq_node.admin.server import BadRequest, JsonHandler, JsonPost, Params
from qmq_node.admin.shared_page import SharedPages
from qmq_node.admin.shown_properties import masks_of
from qmq_node.policy import NO_RULES

SEARCH_PARAMETERS = (
    "match", "tag", "message_id", "sequence", "until_sequence", "from_time", "to_time", "limit", "scan_limit",
    "masks",
)  # fmt: skip

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
        self.routes: dict[str, JsonHandler] = {
            "/stats": self._stats,
            "/subjects/{subject:[^/]+}/messages": self._messages,
            "/subjects/{subject:[^/]+}/messages/{sequence:[0-9]{1,19}}/trace": self._trace,
            "/subjects/{subject:[^/]+}/search": self._search,
            **groups.routes,
            **subjects.routes,
        }
        """GET pages by path."""
        self.posts: dict[str, JsonPost] = {**groups.posts, **subjects.posts}
        self._scans = 0
        """Searches and traces that run now."""
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

    async def _messages(self, request: web.Request) -> bytes:
        store, subject = self._view.store, await self._subject(request)
        params = Params(request.query)
        limit = params.whole("limit", PAGE_MESSAGES, minimum=1)
        sequence = params.whole("sequence", 0, minimum=0)
        message_id, masks = request.query.get("message_id"), masks_of(request.query)
        if message_id is not None:
            with self._scan_slot():
                done = await scan(
                    store, subject, Criteria(message_id=message_id, masks=masks), sequence, subject.visible_end,
                    limit=FOUND_MESSAGES_MAX, scan_limit=ID_SCAN_MESSAGES_MAX, bytes_max=ID_SCAN_BYTES_MAX,
                )  # fmt: skip
            return await _messages_page(subject, done, subject.begin, subject.visible_end)
        async with self._browses:
            with reported():
                if "from_time" in request.query:
                    sequence = await subject.find_time(params.moment_ms("from_time"))
                criteria = Criteria(with_unreadable=True, masks=masks)
                done = await scan(
                    store, subject, criteria, sequence, subject.visible_end, limit=limit, scan_limit=FOUND_MESSAGES_MAX
                )
        return await _messages_page(subject, done, subject.begin, subject.visible_end)

    async def _search(self, request: web.Request) -> bytes:
        store, subject = self._view.store, await self._subject(request)
        query, params = request.query, Params(request.query).only(*SEARCH_PARAMETERS)
        pairs = [text.partition("=") for text in query.getall("match", [])]
        if len(pairs) > CRITERIA_MAX or not all(key and equals for key, equals, _ in pairs):
            raise BadRequest(400, "parameter.wrong", f"match: at most {CRITERIA_MAX}, each as name=value")
        criteria = Criteria(
            query.get("message_id", ""), query.get("tag", ""), tuple((key, value) for key, _, value in pairs),
            masks=masks_of(query),
        )  # fmt: skip
        limit = params.whole("limit", PAGE_MESSAGES, minimum=1)
        scan_limit = params.whole("scan_limit", SCAN_MESSAGES, minimum=1)
        if scan_limit > SCAN_MESSAGES_MAX:
            raise BadRequest(400, "parameter.wrong", f"scan_limit is {scan_limit}; must be at most {SCAN_MESSAGES_MAX}")
        begin, end = params.whole("sequence", 0, minimum=0), subject.visible_end
        end = min(end, params.whole("until_sequence", end, minimum=0))
        with self._scan_slot():
            if "from_time" in query:
                begin = max(begin, await subject.find_time(params.moment_ms("from_time")))
            if "to_time" in query:
                end = min(end, await subject.find_time(params.moment_ms("to_time")))
            done = await scan(store, subject, criteria, begin, end, limit=limit, scan_limit=scan_limit)
        scanned = {"scanned": done.reached - done.begin, "unreadable": done.unreadable}
        return await _messages_page(subject, done, done.begin, done.end, scanned)

    async def _trace(self, request: web.Request) -> dict[str, Any]:
        subject, sequence = await self._subject(request), int(request.match_info["sequence"])
        group, masks = request.query.get("group"), masks_of(request.query)
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
                self._view.store, subject, sequence, only_group=group, after=request.query.get("after", ""), masks=masks
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


async def _messages_page(
    subject: Subject, done: Scan, begin: int, end: int, more: Mapping[str, int] | None = None
) -> bytes:
    """Returns the messages of a scan, in the sequences [begin, end)."""
    sequences = {"begin_sequence": begin, "end_sequence": end, "next_sequence": done.next_sequence}
    head = {"subject": subject.name, **sequences, **(more or {})}
    return await asyncio.to_thread(lambda: encoded_page("messages", [encoded(one) for one in done.messages], head))
