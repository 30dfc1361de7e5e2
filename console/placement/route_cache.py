"""All routes in this process's memory, for readers that need them all: a refresh loads the routes that changed, and no other.

Metaservers have `Directory`.
"""

import threading
from collections import Counter

from metaserver import domain, queries


class RouteCache:
    """Routes as the last `refresh` loaded them. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: domain.MetadataVersion | None = None
        """The version that was loaded; None: none."""
        self._routes: dict[str, domain.Route] = {}
        self._served: Counter[str] = Counter()
        self._moving: Counter[str] = Counter()

    def routes(self) -> list[domain.Route]:
        """The routes of all subjects."""
        with self._lock:
            self._refresh()
            return list(self._routes.values())

    def served_by_each(self) -> dict[str, tuple[int, int]]:
        """By broker group: (subjects it serves, how many of them are moving to or from it); groups with none are left out."""
        with self._lock:
            self._refresh()
            return {name: (count, self._moving[name]) for name, count in self._served.items() if count}

    def _refresh(self) -> None:
        version = queries.metadata_version()
        if version == self._loaded:
            return
        since, self._loaded = self._loaded, None
        changes = queries.changes(since, version) if since is not None else None
        subjects = {subject for subject, _ in changes if subject} if changes is not None else None
        if subjects is None:
            self._routes, self._served, self._moving = {}, Counter(), Counter()
        for subject in subjects or ():
            self._remove(subject)
        for route in queries.route_snapshots(subjects=subjects):
            self._put(route)
        self._loaded = version

    def _put(self, route: domain.Route) -> None:
        self._routes[route.subject] = route
        self._served.update(route.broker_groups)
        self._moving.update(route.phases.keys())

    def _remove(self, subject: str) -> None:
        route = self._routes.pop(subject, None)
        if route is not None:
            self._served.subtract(route.broker_groups)
            self._moving.subtract(route.phases.keys())


ROUTES = RouteCache()
"""The process's own."""
