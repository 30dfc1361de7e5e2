"""The last known metadata as a file, so that a metaserver that starts without its database can serve.

Reads and writes happen in a thread of their own: the event loop never waits for the disk.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

from metaserver.choices import GroupKind, GroupState, OperatorState, Phase
from metaserver.domain import BrokerGroup, Metadata, Node, Route, SubjectRule
from qmq.daemon.counters import counted
from qmq.log.atomic_file import replace_file

if TYPE_CHECKING:
    from qmq.log.disk import Disk

T = TypeVar("T")
logger = logging.getLogger("qmq.meta")

ROUTES_PER_PART = 500
"""Routes encoded at once: json holds the interpreter's lock for that long."""
UNREADABLE = ".unreadable"
"""Appended to the name of a file that could not be decoded; the next such file replaces it."""


@dataclass(slots=True)
class RouteFileCounters:
    """Counts since start."""

    failures: int = counted("route_file_failures", "Failed loads and saves of the route file")
    saves: int = counted("route_file_saves", "Saves of the route file")


class RouteFile:
    """One file, used by one metaserver."""

    def __init__(self, disk: "Disk", path: str) -> None:
        self._disk = disk
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="route-file")
        self._saved: object = None
        self.load_problem = ""
        """Why the file could not be read at the start; "" when it could, or there was none, or it was not needed."""
        self.save_problem = ""
        """Why the last save failed; "" when it did not."""
        self.counters = RouteFileCounters()

    async def load(self) -> Metadata | None:
        """The stored metadata. None when there is no file, or it is unreadable: this is logged as an error, and the file
        is kept under another name."""
        return await self._in_thread(self._load)

    async def save(self, metadata: Metadata) -> None:
        """Replace the file when anything but nodes' log ends changed since the last save; an error is logged and counted."""
        addresses = {node.node_id: node.address for node in metadata.nodes}
        state = (metadata.broker_groups, addresses, metadata.routes, metadata.rules, metadata.paused)
        if state == self._saved:
            return
        try:
            await self._in_thread(lambda: replace_file(self._disk, self._path, list(encode(metadata))))
        except OSError as error:
            if not self.save_problem:
                logger.error("the route file %s can't be written: %s", self._path, error)
            self.counters.failures += 1
            self.save_problem = str(error)
            return
        if self.save_problem:
            logger.info("the route file %s is written again", self._path)
        self.save_problem = ""
        self.counters.saves += 1
        self._saved = state

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def _load(self) -> Metadata | None:
        try:
            data = self._read()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._load_failed(str(error))
            return None
        try:
            return decode(data)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            kept = f"{self._path}{UNREADABLE}"
            try:
                self._disk.rename(self._path, kept)
            except OSError as rename_error:
                kept = f"nowhere: {rename_error}"
            self._load_failed(f"{type(error).__name__}: {error}; kept as {kept}")
            return None

    def _load_failed(self, problem: str) -> None:
        self.counters.failures += 1
        self.load_problem = problem
        logger.error("the route file %s is unreadable: %s", self._path, problem)

    def _read(self) -> bytes:
        file = self._disk.open(self._path, writable=False)
        try:
            return file.pread(file.size(), 0)
        finally:
            file.close()


def encode(metadata: Metadata) -> Iterator[bytes]:
    """The file's content: a JSON object, in parts."""
    head = {
        "broker_groups": [_values(group) for group in metadata.broker_groups],
        "nodes": [_values(node) for node in metadata.nodes],
        "rules": {subject: _values(rule) for subject, rule in metadata.rules.items()},
        "paused": sorted(metadata.paused),
    }
    yield json.dumps(head)[:-1].encode() + b', "routes": ['
    for begin in range(0, len(metadata.routes), ROUTES_PER_PART):
        part = [_values(route) for route in metadata.routes[begin : begin + ROUTES_PER_PART]]
        yield (b", " if begin else b"") + json.dumps(part)[1:-1].encode()
    yield b"]}"


def decode(data: bytes) -> Metadata:
    """The metadata of a file's content. Raises ValueError, KeyError, TypeError or AttributeError."""
    content = json.loads(data)
    groups = tuple(
        BrokerGroup(
            **{
                **group,
                "kind": GroupKind(group["kind"]),
                "state": GroupState(group["state"]),
                "in_sync": tuple(group["in_sync"]),
                "operator_state": OperatorState(group.get("operator_state", OperatorState.NORMAL)),
            }
        )
        for group in content["broker_groups"]
    )
    nodes = tuple(Node(**node) for node in content["nodes"])
    routes = tuple(
        Route(
            **{
                **route,
                "broker_groups": tuple(route["broker_groups"]),
                "phases": {name: Phase(phase) for name, phase in route.get("phases", {}).items()},
            }
        )
        for route in content["routes"]
    )
    rules = {subject: _rule(rule) for subject, rule in content.get("rules", {}).items()}
    paused = frozenset((subject, group, consumer) for subject, group, consumer in content.get("paused", ()))
    return Metadata(groups, nodes, routes, rules, paused)


def _rule(values: dict[str, Any]) -> SubjectRule:
    allowed = values.get("allowed_groups")
    return SubjectRule(**{**values, "allowed_groups": None if allowed is None else tuple(allowed)})


def _values(item: Any) -> dict[str, Any]:
    return {field.name: getattr(item, field.name) for field in fields(item)}
