"""The broker's own pages of its admin HTTP server: /stats, the message browser, search, traces, groups.

All pages are listed in docs/reference/admin.md.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import web

from broker_node.browse import browse, page_of
from broker_node.group_pages import GroupPages
from broker_node.index_repair import DamagedEntries
from broker_node.search import (
    CRITERIA_MAX,
    FOUND_MESSAGES_MAX,
    SCAN_MESSAGES,
    SCAN_MESSAGES_MAX,
    ScanSlots,
    TooManyScans,
    Wanted,
    scan,
)
from broker_node.stats import STATS_SUBJECTS_MAX, subject_stats
from broker_node.subject import Subject
from broker_node.subject_pages import SubjectPages
from broker_node.trace import trace
from qmq.daemon.admin_http import AdminHttp, BadRequest, Params, number
from qmq.daemon.shared_page import SharedPages
from qmq.errors import LocalProtocolError, LogError
from qmq.policy import NO_RULES

if TYPE_CHECKING:
    from broker_node.broker import Broker


def _encoded(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


PAGE_MESSAGES = 50
"""Messages of a page when no limit is asked for."""
STATS_BATCH_SUBJECTS = 20
"""Subjects whose numbers are read in one turn of the event loop: a group with a lag costs a read of the index."""
ID_SCANS_MAX = 10
"""Scans of SCAN_MESSAGES_MAX messages in one request for an id; the answer says where to go on."""


class BrokerAdmin:
    """Answers for one broker."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._groups = GroupPages(broker)
        self._subjects = SubjectPages(broker)
        self._scan_slots = ScanSlots()
        self._stats_pages = SharedPages(broker.clock)

    def server(self) -> AdminHttp:
        """The HTTP server, not started."""
        broker = self._broker
        return AdminHttp(
            broker.options.admin_host,
            broker.options.admin_port,
            health=broker.health,
            ready=broker.readiness,
            supervisor=broker.supervisor,
            clock=broker.clock,
            access=broker.admin_access,
            restrictions=broker.restrictions,
            metrics=broker.metrics.families,
            json_routes={
                "/stats": self._stats,
                "/subjects/{subject:[^/]+}/messages": self._messages,
                "/subjects/{subject:[^/]+}/messages/{sequence:[0-9]{1,19}}/trace": self._trace,
                "/subjects/{subject:[^/]+}/search": self._search,
                **self._groups.routes(),
                **self._subjects.routes(),
            },
            json_posts={**self._groups.posts(), **self._subjects.posts()},
        )

    async def _stats(self, request: web.Request) -> bytes:
        name, after = request.query.get("subject"), request.query.get("after", "")
        limit = number(request, "limit", STATS_SUBJECTS_MAX, minimum=1) or STATS_SUBJECTS_MAX
        if name is not None:
            return await self._build_stats(name, after, limit)
        key = (None, after, limit)
        return await self._stats_pages.get(key, lambda: self._build_stats(*key))

    async def _build_stats(self, name: str | None, after: str, limit: int) -> bytes:
        broker = self._broker
        store = broker.store
        count = min(limit, STATS_SUBJECTS_MAX)
        # One more than the page holds: whether there is a next page.
        names = [name] if name is not None else store.subject_names.page(after, count + 1)
        page = [store.subjects[n] for n in names[:count] if n in store.subjects]
        lease = broker.options.consumer_lease_seconds
        answer = broker.describe()
        answer["unreadable_messages"] = len(store.message_log.unreadable)
        answer["deferred_settlements"] = len(broker.delivery.deferred)
        policies, is_paused = broker.policy.subjects, broker.handlers.pulls.is_paused
        subjects = []
        for i, subject in enumerate(page):
            if i and i % STATS_BATCH_SUBJECTS == 0:
                await asyncio.sleep(0)
            rules = policies.get(subject.name, NO_RULES)
            # A page is encoded subject by subject: one call for all of it would hold the event loop.
            subjects.append(_encoded(subject_stats(store, broker.rates, subject, lease, rules, is_paused)))
        if name is not None:
            # Also for a subject that the node has nothing of yet: whether it would take a message.
            answer["closed"] = policies.get(name, NO_RULES).closed
        answer["next_after"] = page[-1].name if len(names) > count and page else None
        return b'{"subjects":[' + b",".join(subjects) + b"]," + _encoded(answer)[1:]

    def _subject(self, request: web.Request) -> Subject:
        name = request.match_info["subject"]
        subject = self._broker.store.subjects.get(name)
        if subject is None:
            raise BadRequest(404, "subject.unknown", f"this node has no subject {name!r}")
        return subject

    async def _messages(self, request: web.Request) -> dict[str, Any]:
        store, subject = self._broker.store, self._subject(request)
        limit = number(request, "limit", PAGE_MESSAGES, minimum=1) or PAGE_MESSAGES
        sequence = number(request, "sequence", 0) or 0
        message_id = request.query.get("message_id")
        if message_id is not None:
            return await self._find_id(subject, message_id, sequence)
        if "from_time" in request.query:
            sequence = subject.consume_log.find_time(Params(request.query).moment_ms("from_time"))
        while True:
            try:
                return browse(store, subject, sequence, limit)
            except DamagedEntries as damaged:
                with self._scan_slot():
                    await damaged.complete_in_thread(store.message_log)

    async def _find_id(self, subject: Subject, message_id: str, sequence: int) -> dict[str, Any]:
        """Messages with an id (a retried one has several), newest last."""
        found: list[dict[str, Any]] = []
        at: int | None = sequence
        with self._scan_slot():
            for _ in range(ID_SCANS_MAX):
                if at is None or len(found) >= FOUND_MESSAGES_MAX:
                    break
                done = await scan(
                    self._broker.store, subject, Wanted(message_id=message_id), at, subject.visible_end,
                    limit=FOUND_MESSAGES_MAX - len(found), scan_limit=SCAN_MESSAGES_MAX,
                )  # fmt: skip
                found += done.messages
                at = done.next_sequence
        return page_of(subject, found, at)

    async def _search(self, request: web.Request) -> dict[str, Any]:
        store, subject = self._broker.store, self._subject(request)
        query, params = request.query, Params(request.query)
        pairs = [text.partition("=") for text in query.getall("property", [])]
        if len(pairs) > CRITERIA_MAX or not all(key and equals for key, equals, _ in pairs):
            raise BadRequest(400, "parameter.wrong", f"property: at most {CRITERIA_MAX}, each as name=value")
        wanted = Wanted(
            query.get("message_id", ""), query.get("tag", ""), tuple((key, value) for key, _, value in pairs)
        )
        limit = number(request, "limit", PAGE_MESSAGES, minimum=1) or PAGE_MESSAGES
        scan_limit = number(request, "scan_limit", SCAN_MESSAGES, minimum=1) or SCAN_MESSAGES
        if scan_limit > SCAN_MESSAGES_MAX:
            raise BadRequest(400, "parameter.wrong", f"scan_limit is {scan_limit}; must be at most {SCAN_MESSAGES_MAX}")
        begin = number(request, "sequence", 0) or 0
        end = subject.visible_end
        until = number(request, "until_sequence")
        end = end if until is None else min(end, until)
        if "from_time" in query:
            begin = max(begin, subject.consume_log.find_time(params.moment_ms("from_time")))
        if "to_time" in query:
            end = min(end, subject.consume_log.find_time(params.moment_ms("to_time")))
        with self._scan_slot():
            done = await scan(store, subject, wanted, begin, end, limit=limit, scan_limit=scan_limit)
        return {
            "subject": subject.name,
            "begin_sequence": done.begin,
            "end_sequence": done.end,
            "messages": done.messages,
            "scanned": done.reached - done.begin,
            "unreadable": done.unreadable,
            "next_sequence": done.next_sequence,
        }

    async def _trace(self, request: web.Request) -> dict[str, Any]:
        subject, sequence = self._subject(request), int(request.match_info["sequence"])
        group = request.query.get("group")
        if sequence >= subject.visible_end:
            raise BadRequest(
                404,
                "message.unknown",
                f"subject {subject.name} ends at sequence {subject.visible_end}: {sequence} is not stored",
            )
        if group is not None and group not in subject.groups:
            raise BadRequest(404, "group.unknown", f"this node has no group {group!r} of subject {subject.name!r}")
        with self._scan_slot():
            return await trace(
                self._broker.store, subject, sequence, only_group=group, after=request.query.get("after", "")
            )

    @contextmanager
    def _scan_slot(self) -> Iterator[None]:
        """Occupies a scan slot, and reports the errors of a scan as HTTP's."""
        try:
            with self._scan_slots.take():
                yield
        except TooManyScans as error:
            raise BadRequest(503, error.code, str(error)) from error
        except LocalProtocolError as error:
            raise BadRequest(400, error.code, str(error)) from error
        except LogError as error:
            raise BadRequest(500, error.code, str(error)) from error
