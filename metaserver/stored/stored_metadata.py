"""class StoredMetadata: applies what the database holds to the directory, in slices between which clients are served."""

import asyncio
import logging
from collections.abc import Collection, Iterable
from dataclasses import replace

from metaserver.choices import GroupState, OperatorState
from metaserver.domain import Metadata, MetadataChanges, Node, Route
from metaserver.memory.directory import Directory
from metaserver.memory.live_groups import LiveGroup, Reloaded
from metaserver.memory.policies import policies_of
from qmq.clock import Clock
from qmq.errors import ProtocolError

logger = logging.getLogger("qmq.meta")

ROUTES_PER_SLICE = 2_000
"""Routes applied in one turn of the event loop."""


class StoredMetadata:
    """Follows the database. Live state, and what is not stored yet, is kept. One call at a time."""

    def __init__(self, directory: Directory, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._groups: set[str] = set()
        self._routes: set[str] = set()
        """Subjects whose route the database had; others may not be stored yet."""

    async def load(self, metadata: Metadata, *, from_file: bool = False) -> Reloaded:
        """Apply everything that the database holds, or that the route file had.

        The file may be older than what nodes already enforce, such as a drain: it changes no policy.
        """
        directory = self._directory
        groups = {group.name for group in metadata.broker_groups}
        routes = {route.subject for route in metadata.routes}
        changed_groups, _ = self._load_groups(metadata, self._groups - groups)
        to_store: list[Route] = []
        changed_subjects = await self._load_routes(metadata, self._routes - routes, None if from_file else to_store)
        self._groups = groups
        directory.rules, directory.paused = metadata.rules, metadata.paused
        directory.removed_folders = metadata.removed_folders
        if metadata.has_peers:
            directory.assume_peers()
        if not from_file:
            self._routes = routes
            await self._update_policies()
        return Reloaded(changed_subjects, changed_groups, to_store)

    async def apply(self, changes: MetadataChanges) -> Reloaded:
        """Apply what changed in the database since the last `load` or `apply`; costs what changed, not what is stored."""
        directory, stored, subjects = self._directory, changes.stored, changes.subjects
        groups = {group.name for group in stored.broker_groups}
        deleted_groups = changes.broker_groups - groups
        changed_groups, new_groups = self._load_groups(stored, deleted_groups)
        others = {(name, folder) for name, folder in directory.removed_folders if name not in changes.broker_groups}
        directory.removed_folders = stored.removed_folders | others
        self._groups = (self._groups - deleted_groups) | groups
        moved_before = directory.moving & subjects
        changed_subjects = await self._load_routes(stored, changes.deleted_subjects)
        self._routes -= changes.deleted_subjects
        self._routes.update(route.subject for route in stored.routes)
        has_new_policy = bool(changed_groups or new_groups or moved_before or directory.moving & subjects)
        rules = directory.rules
        if {name: rules[name] for name in subjects if name in rules} != stored.rules:
            directory.rules = {name: rule for name, rule in rules.items() if name not in subjects} | dict(stored.rules)
            has_new_policy = True
        # A ruled subject that moved to other broker groups has its rule there.
        has_new_policy = has_new_policy or any(name in directory.rules for name in changed_subjects)
        paused_before = frozenset(pause for pause in directory.paused if pause[0] in subjects)
        if paused_before != stored.paused:
            directory.paused = (directory.paused - paused_before) | stored.paused
            has_new_policy = True
        if has_new_policy:
            await self._update_policies()
        return Reloaded(changed_subjects, changed_groups, [])

    def _load_groups(self, metadata: Metadata, deleted: Collection[str]) -> tuple[set[str], bool]:
        """(the groups whose operator state changed, whether one is new)."""
        directory, now = self._directory, self._clock.monotonic()
        changed, has_new = set(), False
        for node in metadata.nodes:
            self._load_node(node)
        for group in metadata.broker_groups:
            live = directory.groups.get(group.name)
            if live is None:
                master = directory.nodes.get(group.membership.master)
                directory.groups[group.name] = LiveGroup(
                    group,
                    master,
                    now,
                    group.state,
                    group.state is GroupState.OFFLINE,
                    reported_place=group.membership.known_place,
                    lease_began_at=now,
                )
                has_new = True
                continue
            before = live.group.operator_state
            directory.learn_group(group)
            if before != group.operator_state:
                if before is OperatorState.UNAPPROVED:
                    live.reason = ""
                changed.add(group.name)
        for name in deleted:
            # An operator removed it. A node that still runs registers it again with its next heartbeat.
            if name in directory.groups and directory.groups[name].state is GroupState.OFFLINE:
                del directory.groups[name]
                directory.nodes = {key: node for key, node in directory.nodes.items() if node.broker_group != name}
        return changed, has_new

    def _load_node(self, stored: Node) -> None:
        """Add a stored node; of one that is known only the log end is taken, if an operator accepted a log loss."""
        directory = self._directory
        known = directory.nodes.get(stored.node_id)
        if known is None:
            now_ms = self._clock.wall_ms()
            # A time that is unknown, or was stored by a clock that ran ahead, would forbid or allow any growth of the log.
            reported_at_ms = min(stored.reported_at_ms or now_ms, now_ms)
            directory.nodes[stored.node_id] = replace(stored, reported_at_ms=reported_at_ms)
            return
        node = directory.nodes[stored.node_id] = known.with_newest_log_end(stored)
        live = directory.groups.get(node.broker_group)
        if live is not None and live.node is not None and live.node.node_id == node.node_id:
            live.node = live.node.with_newest_log_end(node)

    async def _load_routes(
        self, metadata: Metadata, deleted: Iterable[str], to_store: list[Route] | None = None
    ) -> set[str]:
        """The subjects whose route changed.

        Args:
            to_store: gets the routes to store where the database has an older one, or another one of the same version. It was
                restored from a backup, or the route file has what was not stored. None: such groups are ignored.
        """
        directory, changed = self._directory, set()
        for begin in range(0, len(metadata.routes), ROUTES_PER_SLICE):
            if begin:
                await asyncio.sleep(0)
            for route in metadata.routes[begin : begin + ROUTES_PER_SLICE]:
                known = directory.routes.get(route.subject)
                if known is None or known.version < route.version:
                    directory.put_route(route)
                    changed.add(route.subject)
                elif to_store is not None and known != route:
                    extended = directory.put_older(route)
                    to_store += [extended] if extended is not None else []
                    changed.add(route.subject)
        for subject in deleted:
            directory.remove_route(subject)
        return changed

    async def _update_policies(self) -> None:
        """Compute the policies of all broker groups in a thread, then set them."""
        directory = self._directory
        moving = frozenset(directory.moving)
        subjects = moving.union(directory.rules)
        routes = {name: directory.routes[name] for name in subjects if name in directory.routes}
        groups = tuple(live.group for live in directory.groups.values())
        metadata = Metadata(groups, rules=directory.rules, paused=directory.paused)
        try:
            policies, documents = await asyncio.to_thread(
                lambda: directory.policies.encoded(policies_of(metadata, routes, moving))
            )
        except ProtocolError as error:
            logger.error("nodes keep the policies they have: %s", error)
        else:
            directory.policies.set(policies, documents)
