"""The collector's view of the database, read independently of its cycles, so that a slow or unavailable database does not delay
them.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from channels.db import database_sync_to_async
from django.db import Error as DatabaseError
from django.db.models import Max
from django.utils import timezone

from console.alerts import queries as alert_queries
from console.cluster.places import NodePlace
from console.jobs import jobs
from console.jobs.alerts import ALERTS
from console.placement.route_cache import RouteCache
from console.snapshot.state import RECENT_MAX, Entry
from console.times import rfc3339
from metaserver import queries
from qmq.clock import Clock
from qmq.protocol.codes import Role

logger = logging.getLogger("qmq.live")

READ_SECONDS = 1.0
ROUTES_SECONDS = 10.0
"""How often the routes that changed are read."""
METASERVER_FORGOTTEN_HOURS = 24
"""A metaserver that stored nothing for this long was removed deliberately."""
_MASTERS = (Role.MASTER, Role.DELAY, Role.DELAY_MASTER)


@dataclass(frozen=True, slots=True)
class Metadata:
    """Rows as plain values; `reason` is None when they were read recently."""

    places: tuple[NodePlace, ...] = ()
    routes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    broker_groups: dict[str, Entry] = field(default_factory=dict)
    metaservers: dict[str, Entry] = field(default_factory=dict)
    jobs: dict[str, Entry] = field(default_factory=dict)
    audit: tuple[Entry, ...] = ()
    """The newest entries, oldest first."""
    reason: str | None = "the database has not been read yet"
    alerts: dict[str, Entry] = field(default_factory=dict)
    """`firing`: how many alerts fire, by severity, and when one last fired or was resolved."""

    @property
    def evaluates_alerts(self) -> bool:
        """Whether the job that evaluates alert rules is not disabled, as far as that is known."""
        return bool(self.jobs.get(ALERTS.name, {}).get("is_enabled", True))


class MetadataReader:
    """Keeps the newest metadata."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._routes = RouteCache()
        self._routes_at: float | None = None
        self._audit_id: int | None = None
        self.now = Metadata()
        self.was_read = asyncio.Event()
        """Set after the first reading, successful or not."""
        self._is_outdated = asyncio.Event()

    async def run(self) -> None:
        """Read again and again until cancelled; a database that fails is queried again."""
        while True:
            await self.read()
            self.was_read.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(READ_SECONDS):
                    await self._is_outdated.wait()
            self._is_outdated.clear()

    def read_soon(self) -> None:
        """Something was written that the next cycle should show."""
        self._is_outdated.set()

    async def read(self) -> None:
        """Read once; what was read before stays when it fails, with the reason."""
        try:
            self.now = await database_sync_to_async(self._read)()
        except DatabaseError as error:
            if self.now.reason is None:
                logger.warning("the database can't be read: %s", error)
            self.now = replace(self.now, reason=f"the database can't be read: {error}"[:300])

    def _read(self) -> Metadata:
        places = []
        for row in queries.approved_nodes():
            group = row.broker_group
            is_master = row.node_id == group.master if group.master else row.role in _MASTERS
            places.append(
                NodePlace(
                    row.node_id,
                    group.name,
                    str(group.kind),
                    is_master,
                    row.address,
                    row.admin_address,
                    str(row.report.get("boot_id", "")),
                )
            )
        groups = {
            row.name: {
                "broker_group": row.name,
                "kind": str(row.kind),
                "state": str(row.state),
                "operator_state": str(row.operator_state),
                "epoch": row.epoch,
                "master": row.master,
            }
            for row in queries.broker_groups().prefetch_related(None)
        }
        now = self._clock.monotonic()
        routes = self.now.routes
        if self._routes_at is None or now - self._routes_at >= ROUTES_SECONDS:
            routes = {route.subject: route.broker_groups for route in self._routes.routes()}
            self._routes_at = now
        changed_at = alert_queries.changed_at()
        alerts: dict[str, Entry] = {
            "firing": {**alert_queries.firing_counts(), "changed_at": rfc3339(changed_at) if changed_at else None}
        }
        return Metadata(tuple(places), routes, groups, self._metaservers(), self._jobs(), self._audit(), None, alerts)

    def _metaservers(self) -> dict[str, Entry]:
        now = timezone.now()
        fresh_after = now - timedelta(seconds=queries.METASERVER_FRESH_SECONDS)
        return {
            row.name: {"address": row.name, "is_heard": row.seen_at > fresh_after, "seen_at": rfc3339(row.seen_at)}
            for row in queries.metaservers(now - timedelta(hours=METASERVER_FORGOTTEN_HOURS))
        }

    def _jobs(self) -> dict[str, Entry]:
        return {
            state.row.name: {
                "job": state.row.name,
                "is_enabled": state.row.is_enabled,
                "is_late": state.is_late,
                "succeeded_at": rfc3339(state.row.succeeded_at) if state.row.succeeded_at else None,
                "error": state.row.error,
                "runs": str(state.row.runs),
                "failures": str(state.row.failures),
            }
            for state in jobs.states()
        }

    def _audit(self) -> tuple[Entry, ...]:
        """Entries newer than the last; at the first reading those that are there are old."""
        entries = queries.audit_entries()
        if self._audit_id is None:
            self._audit_id = entries.aggregate(newest=Max("id"))["newest"] or 0
            return ()
        rows = list(entries.filter(id__gt=self._audit_id).order_by("-id")[:RECENT_MAX])
        self._audit_id = max([self._audit_id, *(row.id for row in rows)])
        texts = ("actor", "action", "target", "reason")
        found = [
            {"id": str(row.id), "at": rfc3339(row.at), **{name: getattr(row, name) for name in texts}}
            for row in reversed(rows)
        ]
        return (*self.now.audit, *found)[-RECENT_MAX:]
