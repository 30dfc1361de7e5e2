"""The metaserver's HTTP pages: its address for clients, and what it knows of broker groups and subjects."""

import json
from typing import Any

from aiohttp import web

from metaserver.admin.metrics import MeasuredMetaserver
from metaserver.choices import GroupKind
from metaserver.domain import Route
from metaserver.memory.live_groups import LEASE_SECONDS, LiveGroup
from qmq_node.admin.server import BadRequest, JsonHandler, Params
from qmq_node.admin.shared_page import SharedPages

ADDRESS_PAGE = "/meta/address"
DELAY_GROUPS_PAGE = "/meta/delay-groups"
SUBJECTS_PER_PAGE = 1_000


class MetaPages:
    def __init__(self, metaserver: MeasuredMetaserver) -> None:
        self._metaserver = metaserver
        self._directory = metaserver.directory
        self._subject_pages = SharedPages(metaserver.clock)

    def json_routes(self) -> dict[str, JsonHandler]:
        return {
            DELAY_GROUPS_PAGE: self._delay_groups,
            "/meta/cluster": self._cluster,
            "/meta/subjects": self._subjects,
            "/meta/subjects/{subject:.+}": self._subject,
        }

    async def address_page(self, _: web.Request) -> web.Response:
        """The address that clients connect to, as text."""
        return web.Response(text=self._metaserver.tcp_address)

    async def _delay_groups(self, _: web.Request) -> dict[str, Any]:
        """What clients need to look up and change delayed messages; routes give them the same addresses."""
        return {
            "delay_groups": [
                {
                    "name": name,
                    "address": live.node.address if live.node is not None else "",
                    "members": len(live.group.membership.members),
                }
                for name, live in sorted(self._directory.groups.items())
                if live.group.kind is GroupKind.DELAY
            ]
        }

    async def _cluster(self, _: web.Request) -> dict[str, Any]:
        write_behind = self._metaserver.write_behind
        return {
            "metaserver": {
                "tcp": self._metaserver.tcp_address,
                "database": f"down: {write_behind.problem}" if write_behind.problem else "up",
                "not_stored_yet": write_behind.pending,
                "route_file": self._route_file_state(),
                "subjects": len(self._directory.routes),
            },
            "broker_groups": [self._group(live) for _, live in sorted(self._directory.groups.items())],
        }

    def _route_file_state(self) -> str:
        file = self._metaserver.route_file
        if file.save_problem:
            return f"not written: {file.save_problem}"
        return f"unreadable at the start: {file.load_problem}" if file.load_problem else "ok"

    def _group(self, live: LiveGroup) -> dict[str, Any]:
        group, node, directory = live.group, live.node, self._directory
        handlers = self._metaserver.handlers
        nodes = [n.node_id for n in directory.nodes.values() if n.broker_group == group.name]
        return {
            "name": group.name,
            "kind": str(group.kind),
            "state": str(live.state),
            "operator_state": str(group.operator_state),
            "reason": live.reason,
            "epoch": group.membership.epoch,
            "in_sync_version": group.membership.version,
            "members": list(group.membership.members),
            "in_sync": list(group.membership.in_sync),
            "membership_problem": handlers.restored_memberships.blocked.get(group.name, ""),
            "promotion_problem": handlers.promotions.blocked.get(group.name, ""),
            "subjects": len(directory.subjects_of(group.name)),
            "master": None
            if node is None
            else {
                **{name: getattr(node, name) for name in ("node_id", "address", "admin_address", "version", "log_end")},
                "last_heartbeat_seconds": round(directory.heartbeat_age(live), 3),
                "lease_remaining_seconds": round(max(0.0, LEASE_SECONDS - directory.heartbeat_age(live)), 3),
            },
            "nodes": sorted(nodes),
        }

    async def _subjects(self, request: web.Request) -> bytes:
        limit = min(Params(request.query).whole("limit", SUBJECTS_PER_PAGE, minimum=1), SUBJECTS_PER_PAGE)
        key = request.query.get("prefix", ""), request.query.get("after", ""), limit
        return await self._subject_pages.get(key, lambda: self._build_subjects(*key))

    async def _build_subjects(self, prefix: str, after: str, limit: int) -> bytes:
        # One more than the page contains: whether there is a next page.
        names = self._directory.subjects.page(after, limit + 1, prefix)
        page = [_route(self._directory.routes[name]) for name in names[:limit]]
        answer = {"subjects": page, "next_after": names[limit - 1] if len(names) > limit else None}
        return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()

    async def _subject(self, request: web.Request) -> dict[str, Any]:
        name = request.match_info["subject"]
        route = self._directory.routes.get(name)
        if route is None:
            raise BadRequest(
                404, "subject.unknown", f"Subject {name!r} not found. It is created by its first producer or consumer."
            )
        return _route(route)


def _route(route: Route) -> dict[str, Any]:
    return {
        "subject": route.subject,
        "broker_groups": list(route.broker_groups),
        "phases": {name: str(phase) for name, phase in route.phases.items()},
        "route_version": route.version,
        "created_at_ms": route.created_at_ms,
    }
