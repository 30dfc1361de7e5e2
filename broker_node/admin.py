"""The broker's own pages of its admin HTTP server: /stats and the message browser."""

from typing import TYPE_CHECKING, Any

from aiohttp import web

from broker_node.browse import browse, find_id
from broker_node.stats import STATS_SUBJECTS_MAX, subject_stats
from qmq.daemon.admin_http import AdminHttp, BadRequest, Params, number

if TYPE_CHECKING:
    from broker_node.broker import Broker

PAGE_MESSAGES = 50
"""Messages of a page when no limit is asked for."""


class BrokerAdmin:
    """Answers for one broker."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def server(self) -> AdminHttp:
        """The HTTP server, not started."""
        broker = self._broker
        return AdminHttp(
            broker.options.admin_host,
            broker.options.admin_port,
            health=broker.health,
            ready=broker.readiness,
            registry=broker.metrics.registry,
            json_routes={
                "/stats": self._stats,
                "/subjects/{subject:.+}/messages": self._messages,
            },
        )

    async def _stats(self, request: web.Request) -> dict[str, Any]:
        broker = self._broker
        store = broker.store
        name, after = request.query.get("subject"), request.query.get("after", "")
        limit = number(request, "limit", STATS_SUBJECTS_MAX, minimum=1) or STATS_SUBJECTS_MAX
        names = [name] if name is not None else sorted(n for n in store.subjects if n > after)
        page = [store.subjects[n] for n in names[: min(limit, STATS_SUBJECTS_MAX)] if n in store.subjects]
        lease = broker.options.consumer_lease_seconds
        answer = broker.describe()
        answer["subjects"] = [subject_stats(store, broker.rates, subject, lease) for subject in page]
        answer["next_after"] = page[-1].name if len(names) > len(page) and page else None
        return answer

    async def _messages(self, request: web.Request) -> dict[str, Any]:
        store = self._broker.store
        name = request.match_info["subject"]
        subject = store.subjects.get(name)
        if subject is None:
            raise BadRequest(404, "subject.unknown", f"this node has no subject {name!r}")
        limit = number(request, "limit", PAGE_MESSAGES, minimum=1) or PAGE_MESSAGES
        sequence = number(request, "sequence", 0) or 0
        message_id = request.query.get("message_id")
        if message_id is not None:
            return find_id(store, subject, message_id, sequence)
        if "from_time" in request.query:
            sequence = subject.consume_log.find_time(Params(request.query).moment_ms("from_time"))
        return browse(store, subject, sequence, limit)
