"""Stores events of the live feed in the database, for the feed of events and charts, independently of the collector's cycles."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from typing import Any

from channels.db import database_sync_to_async
from django.db import Error as DatabaseError

from console.models import SystemEvent
from console.snapshot.state import Entry

logger = logging.getLogger("qmq.live")

PENDING_MAX = 1_000
"""Events that wait for the database; of more, the oldest are dropped."""
BATCH_MAX = 200
RETRY_SECONDS = 2.0
STATES = ("read_write", "read_only", "write_only")
"""States of a node between which a change is an event. A slave serves no clients; its role is in the audit log."""


def stored_event(event: Entry, nodes: Mapping[str, Entry]) -> SystemEvent | None:
    """Return the row of an event of the live feed; None for one that is in the audit log.

    Args:
        nodes: the entries of nodes, by node ID.
    """
    before, after = event["before"], event["after"]
    reason, why = "", None
    match event["kind"]:
        case "node.unreachable":
            kind, severity, reason = "unreachable", "warning", str(after)
            why = nodes.get(event["target"], {}).get("why")
            before = after = ""
        case "node.reachable":
            kind, severity, before, after = "reachable", "info", "", ""
        case "node.restarted":
            kind, severity = "restart", "info"
        case "node.state" if before in STATES and after in STATES:
            kind, severity = "state", "info" if after == "read_write" else "warning"
            node = nodes.get(event["target"], {})
            reason, why = str(node.get("state_reason") or ""), node.get("state_why")
        case "job.late":
            kind, severity = "job", "warning" if after else "info"
            before, after = ("", "late") if after else ("late", "")
        case _:
            return None
    return SystemEvent(
        id=int(event["id"]), at=datetime.fromisoformat(event["at"]), kind=kind, severity=severity, target=_text(event["target"]),
        broker_group=_text(nodes.get(event["target"], {}).get("broker_group", "")), before=_text(before), after=_text(after),
        reason=_text(reason, 500), why=why,
    )  # fmt: skip


def _text(value: Any, chars_max: int = 100) -> str:
    """Return text that any database accepts."""
    return str(value).replace("\x00", "\ufffd").encode(errors="replace").decode()[:chars_max]


class EventLog:
    """Events of this collector that are not stored yet."""

    def __init__(self, sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep) -> None:
        self._pending: deque[SystemEvent] = deque(maxlen=PENDING_MAX)
        self._has_pending = asyncio.Event()
        self._sleep = sleep

    def add(self, events: list[Entry], nodes: Mapping[str, Entry]) -> None:
        """Store these events soon."""
        rows = [row for event in events if (row := stored_event(event, nodes)) is not None]
        dropped = max(0, len(self._pending) + len(rows) - PENDING_MAX)
        if dropped:
            logger.warning("%d events are not stored: more than %d wait for the database", dropped, PENDING_MAX)
        self._pending.extend(rows)
        if rows:
            self._has_pending.set()

    async def run(self) -> None:
        """Store events until cancelled; if the database fails, they are stored again after RETRY_SECONDS."""
        while True:
            await self._has_pending.wait()
            try:
                await self.store()
            except DatabaseError as error:
                logger.warning("events can't be stored: %s", error)
                await self._sleep(RETRY_SECONDS)

    async def store(self) -> None:
        """Store what is pending. Raises the database's error; nothing is lost or stored twice then."""
        while self._pending:
            batch = list(self._pending)[:BATCH_MAX]
            await database_sync_to_async(_insert)(batch)
            stored = {row.pk for row in batch}
            while self._pending and self._pending[0].pk in stored:
                self._pending.popleft()
        self._has_pending.clear()


def _insert(rows: list[SystemEvent]) -> None:
    # Another try after an unknown outcome finds the rows there.
    SystemEvent.objects.bulk_create(rows, ignore_conflicts=True)
