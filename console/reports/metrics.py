"""`/metrics`: the whole system's numbers in Prometheus' text form, from the collector's snapshot.

What is not known has no sample (a gap in the graph, never 0) and is counted in `qmq_unknown`.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from ipaddress import ip_address, ip_network
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseError
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry
from redis.exceptions import RedisError

from console.accounts.principals import principal_of
from console.accounts.roles import Right
from console.accounts.tokens import find_token
from console.http.verified import verified
from console.outbox.models import OutboxDatabase
from console.outbox.numbers import Numbers, Unknown
from console.outbox.queries import enabled_numbers
from console.snapshot.bus import SNAPSHOT_MS, read_stored
from console.snapshot.state import Entry, State, empty
from qmq.clock import SYSTEM_CLOCK, Clock

SUBJECT_SERIES_MAX = 2_000
GROUP_SERIES_MAX = 10_000
"""Those with the highest rates are shown; `qmq_system_left_out` counts the others."""
PAGE_SECONDS = 1.0
"""How old a page may be; the numbers in it are measured once a second."""

_SUBJECT = {
    "stored_messages": ("qmq_system_subject_stored_messages", "Stored messages"),
    "send_rate": ("qmq_system_subject_sends_per_second", "Messages sent per second"),
    "send_bytes_rate": ("qmq_system_subject_send_bytes_per_second", "Bytes sent per second"),
}
_SUBJECT_TOTALS = {"sent_messages": ("qmq_system_subject_messages", "Total messages sent")}
_GROUP = {
    "backlog": ("qmq_system_backlog_messages", "Messages stored and not pulled yet"),
    "in_flight": ("qmq_system_in_flight_messages", "Messages pulled and not acknowledged yet"),
    "lag": ("qmq_system_lag_messages", "Backlog plus in flight"),
    "time_lag_seconds": ("qmq_system_time_lag_seconds", "Age of the oldest unacknowledged message"),
    "drain_seconds": ("qmq_system_drain_seconds", "Estimated time until the lag is zero; no sample: never or unknown"),
    "pull_rate": ("qmq_system_pulls_per_second", "Messages pulled per second"),
    "ack_rate": ("qmq_system_acks_per_second", "Messages acknowledged per second"),
    "consumers_online": ("qmq_system_consumers_online", "Consumers seen within their lease"),
}
_GROUP_TOTALS = {
    "retried": ("qmq_system_retried_messages", "Messages sent to the retry subject"),
    "redelivered": ("qmq_system_redelivered_messages", "Messages redelivered"),
    "skipped_by_retention": ("qmq_system_skipped_messages", "Messages deleted before the group pulled them"),
}
_NODE = {
    "disk_free_bytes": ("qmq_system_disk_free_bytes", "Free space on the disk of the master's log"),
    "connections": ("qmq_system_connections", "Client connections of the master"),
    "damaged_ranges": ("qmq_system_damaged_ranges", "Corrupted ranges on the master's disk that are not repaired"),
    "uptime_seconds": ("qmq_system_uptime_seconds", "Time since the master started"),
    "pending": ("qmq_system_pending_messages", "Pending delayed messages"),
    "overdue": ("qmq_system_overdue_messages", "Delayed messages past their due time"),
    "delivered_per_second": ("qmq_system_delayed_deliveries_per_second", "Delayed messages delivered per second"),
}
_OUTBOX = {
    "pending": ("qmq_outbox_pending_rows", "Unsent rows, counted up to 100,000"),
    "failed": ("qmq_outbox_failed_rows", "Rows that wait for an operator, counted up to 100,000"),
    "oldest_seconds": ("qmq_outbox_oldest_seconds", "Age of the oldest unsent row"),
    "rows_per_second": ("qmq_outbox_rows_per_second", "Rows sent per second by this system's relay"),
}
_COLLECTOR = {
    "last_beat_seconds": ("qmq_collector_beat_timestamp_seconds", "Time of the collector's last cycle"),
    "duration_seconds": ("qmq_collector_beat_seconds", "Duration of the collector's last cycle"),
    "published_bytes": ("qmq_collector_published_bytes", "Bytes published by the last cycle"),
}
_COLLECTOR_TOTALS = {
    "beats": ("qmq_collector_beats", "Published cycles"),
    "overruns": ("qmq_collector_overruns", "Skipped cycles"),
    "errors": ("qmq_collector_errors", "Failed cycles"),
}


class SystemMetrics(Collector):
    """One measurement of the system.

    Args:
        snapshot: as stored; None: there is none.
        health: the collector's; None: none was ever stored.
        problem: why there is no snapshot, in a word; "" when there is one.
        outboxes: registered databases that are enabled; None: they can't be read.
    """

    def __init__(
        self,
        snapshot: Mapping[str, Any] | None,
        health: Mapping[str, Any] | None,
        problem: str,
        outboxes: Sequence[tuple[OutboxDatabase, Numbers]] | None,
    ) -> None:
        self._state: State = {**empty(), **snapshot["state"]} if snapshot is not None else empty()
        self._health = health
        self._problem = problem
        self._databases = outboxes
        self._unknown: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()

    def collect(self) -> Iterable[Metric]:
        yield from self._subjects()
        yield from self._groups()
        yield from self._nodes()
        yield from self._broker_groups()
        yield from self._jobs()
        yield from self._outboxes()
        yield from self._collector()
        left_out = GaugeMetricFamily(
            "qmq_system_left_out", "Objects without series because of the limit", labels=["what"]
        )
        for what in ("subject", "group"):
            left_out.add_metric([what], self._left_out[what])
        yield left_out
        unknown = GaugeMetricFamily("qmq_unknown", "Values that could not be measured", labels=["what"])
        self._unknown["snapshot"] += 1 if self._problem else 0
        for what in ("snapshot", "subject", "group", "node", "database"):
            unknown.add_metric([what], self._unknown[what])
        yield unknown

    def _families(
        self,
        what: str,
        entries: list[Entry],
        names: Mapping[str, tuple[str, str]],
        labels: tuple[str, ...],
        kind: type[GaugeMetricFamily] | type[CounterMetricFamily] = GaugeMetricFamily,
    ) -> Iterable[Metric]:
        for field, (name, text) in names.items():
            family = kind(name, text, labels=list(labels))
            for entry in entries:
                value = entry.get(field)
                if value is not None:
                    family.add_metric([entry[label] for label in labels], value)
                elif field in entry and not (field == "drain_seconds" and entry["is_draining"] is False):
                    self._unknown[what] += 1
            yield family

    def _busiest(self, what: str, section: str, rate: str, limit: int) -> list[Entry]:
        entries = list(self._state[section].values())
        if len(entries) > limit:
            self._left_out[what] = len(entries) - limit
            entries.sort(key=lambda entry: entry[rate] or 0.0, reverse=True)
        return entries[:limit]

    def _subjects(self) -> Iterable[Metric]:
        entries = self._busiest("subject", "subjects", "send_rate", SUBJECT_SERIES_MAX)
        yield from self._families("subject", entries, _SUBJECT, ("subject",))
        yield from self._families("subject", entries, _SUBJECT_TOTALS, ("subject",), CounterMetricFamily)

    def _groups(self) -> Iterable[Metric]:
        entries = self._busiest("group", "groups", "lag", GROUP_SERIES_MAX)
        yield from self._families("group", entries, _GROUP, ("subject", "group"))
        yield from self._families("group", entries, _GROUP_TOTALS, ("subject", "group"), CounterMetricFamily)

    def _nodes(self) -> Iterable[Metric]:
        masters = [entry for entry in self._state["nodes"].values() if entry["is_master"]]
        yield from self._families("node", masters, _NODE, ("broker_group",))
        reached = GaugeMetricFamily("qmq_system_node_reached", "1 if the master responds", labels=["broker_group"])
        writable = GaugeMetricFamily(
            "qmq_system_node_writable", "1 if the master accepts sends", labels=["broker_group"]
        )
        for entry in masters:
            reached.add_metric([entry["broker_group"]], int(entry["is_measured"]))
            if entry["state"] is not None:
                writable.add_metric([entry["broker_group"]], 1 if entry["state"] == "read_write" else 0)
        yield from (reached, writable)

    def _broker_groups(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(
            "qmq_system_broker_group_state", "1 for the current state", labels=["broker_group", "state"]
        )
        for name, entry in self._state["broker_groups"].items():
            family.add_metric([name, entry["state"]], 1)
        yield family

    def _jobs(self) -> Iterable[Metric]:
        succeeded = GaugeMetricFamily(
            "qmq_system_job_success_timestamp_seconds", "Time of the last success of a background job", labels=["job"]
        )
        late = GaugeMetricFamily("qmq_system_job_late", "1 if a background job is overdue", labels=["job"])
        failures = CounterMetricFamily("qmq_system_job_failures", "Failed runs of a background job", labels=["job"])
        for name, entry in self._state["jobs"].items():
            if entry["succeeded_at"] is not None:
                succeeded.add_metric([name], datetime.fromisoformat(entry["succeeded_at"]).timestamp())
            late.add_metric([name], int(entry["is_late"]))
            failures.add_metric([name], int(entry["failures"]))
        yield from (succeeded, late, failures)

    def _outboxes(self) -> Iterable[Metric]:
        found = self._databases
        self._unknown["database"] += 1 if found is None else sum(numbers.unknown is not None for _, numbers in found)
        for field, (name, text) in _OUTBOX.items():
            family = GaugeMetricFamily(name, text, labels=["database"])
            for row, numbers in found or ():
                value = getattr(numbers, field)
                if value is not None:
                    family.add_metric([row.name], value)
            yield family
        usable = GaugeMetricFamily("qmq_outbox_usable", "1 if the relay can use the database", labels=["database"])
        for row, numbers in found or ():
            if numbers.unknown in (None, Unknown.FAILED):
                usable.add_metric([row.name], int(numbers.unknown is None))
        yield usable

    def _collector(self) -> Iterable[Metric]:
        if self._health is not None:
            health = [{**self._health, "last_beat_seconds": self._health["last_beat_ms"] / 1000}]
            yield from self._families("collector", health, _COLLECTOR, ())
            yield from self._families("collector", health, _COLLECTOR_TOTALS, (), CounterMetricFamily)


def exposition(
    read: Callable[[], tuple[dict[str, Any] | None, dict[str, Any] | None]],
    now_ms: int,
    outboxes: Sequence[tuple[OutboxDatabase, Numbers]] | None = (),
) -> tuple[bytes, str]:
    """The page and its content type. `read` gives (snapshot, health) or raises RedisError; `outboxes`: see SystemMetrics."""
    try:
        snapshot, health = read()
        problem = "" if snapshot is not None else "no snapshot"
    except (RedisError, OSError) as error:
        snapshot, health, problem = None, None, str(error) or type(error).__name__
    if snapshot is not None and now_ms - snapshot["at_ms"] > SNAPSHOT_MS:
        # A Redis that stood still forgets late; old numbers are shown as none.
        snapshot, problem = None, "old snapshot"
    registry = CollectorRegistry(auto_describe=False)
    registry.register(SystemMetrics(snapshot, health, problem, outboxes))
    return generate_latest(registry), CONTENT_TYPE_LATEST


class MetricsPage:
    """The page, built by one thread at a time and then served for PAGE_SECONDS: many scrapers cost what one does."""

    def __init__(self, build: Callable[[], tuple[bytes, str]], clock: Clock = SYSTEM_CLOCK) -> None:
        self._build = build
        self._clock = clock
        self._lock = threading.Lock()
        self._page: tuple[bytes, str] = (b"", "")
        self._until = float("-inf")

    def get(self) -> tuple[bytes, str]:
        """The page and its content type, at most PAGE_SECONDS old."""
        with self._lock:
            if self._clock.monotonic() >= self._until:
                self._page = self._build()
                self._until = self._clock.monotonic() + PAGE_SECONDS
            return self._page


def _outboxes() -> Sequence[tuple[OutboxDatabase, Numbers]] | None:
    try:
        return enabled_numbers(timezone.now())
    except DatabaseError:
        return None


_page = MetricsPage(
    lambda: exposition(lambda: read_stored(settings.REDIS_URL), time.time_ns() // 1_000_000, _outboxes())
)


def _is_allowed_address(request: HttpRequest) -> bool:
    """Whether QMQ_METRICS_NETWORKS names the address of the connection's other end.

    No address is allowed by default, not even this machine's own: a proxy on it would publish the page.
    """
    try:
        address = ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return any((mapped or address) in ip_network(text) for text in settings.METRICS_NETWORKS)


def _has_token(request: HttpRequest) -> bool:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        return False
    row = find_token(token.strip(), str(request.META.get("REMOTE_ADDR", "")))
    if row is None:
        return False
    verified.add(token.strip())
    return principal_of(row.owner, row).has(Right.READ)


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """For Prometheus: with a token of scope read, or from a network of QMQ_METRICS_NETWORKS."""
    if not _is_allowed_address(request) and not _has_token(request):
        answer = HttpResponse("A token with scope read is required.\n", status=401, content_type="text/plain")
        answer.headers["WWW-Authenticate"] = "Bearer"
        return answer
    page, content_type = _page.get()
    return HttpResponse(page, content_type=content_type)
