"""class RouteFile: the newest metadata on disk, so that a metaserver that starts without its database can serve.

A metaserver that starts with its database reads the file, too: if the membership of a broker group is newer in the
file, the database was restored from a backup. Nodes get no membership that the file does not have
(`metaserver.replication.membership_records`).

Two files: `routes.json` holds everything at one moment, `routes.log` the changes since then, a line for each save. The log names
the file that it continues by its digest, and is replaced with the file when it has become as large. Reads and writes happen in a
thread of their own.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeVar

from metaserver.choices import Phase
from metaserver.domain import BrokerGroup, Metadata, Node, Route, SubjectRule
from metaserver.memory.directory import Directory
from qmq_node.log.atomic_file import replace_file
from qmq_node.process.counters import counted

if TYPE_CHECKING:
    from qmq_node.log.disk import Disk, File

T = TypeVar("T")
logger = logging.getLogger("qmq.meta")

ITEMS_PER_PART = 500
"""Routes or rules encoded at once: json holds the interpreter's lock for that long."""
LOG_BYTES_MIN = 1 << 20
"""Size up to which the log of changes grows, also where the file is smaller."""
LOG_ITEMS_MAX = 5_000
"""Changed routes, groups, nodes and rules of one save; for more of them the file is replaced."""
UNREADABLE = ".unreadable"
"""Appended to the name of a file that could not be decoded; the next such file replaces it."""
_DIGEST_BYTES = 16


@dataclass(slots=True)
class RouteFileCounters:
    failures: int = counted("route_file_failures", "Failed loads and saves of the route file")
    saves: int = counted("route_file_saves", "Saves of the route file")
    rewrites: int = counted("route_file_rewrites", "Saves that replaced the whole route file")


class RouteFile:
    """The files of one metaserver: `path` is that of `routes.json`, the log is beside it."""

    def __init__(self, disk: "Disk", path: str) -> None:
        self._disk = disk
        self._path = path
        self._log_path = f"{path.removesuffix('.json')}.log"
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="route-file")
        self._log: File | None = None
        """None: the next save replaces the file."""
        self._log_bytes = self._log_bytes_max = 0
        self._lock = asyncio.Lock()
        self._saved: dict[str, Any] = {}
        """What was saved last, without routes."""
        self.load_problem = ""
        """Why the file could not be read at the start; "" when it could, or there was none."""
        self.save_problem = ""
        """Why the last save failed; "" when it did not."""
        self.counters = RouteFileCounters()

    async def load(self) -> Metadata | None:
        """The stored metadata; None without a readable file. An unreadable one is logged and kept under another name."""
        return await self._in_thread(self._load)

    async def save(self, directory: Directory) -> None:
        """Store what changed since the last save, except nodes' log ends; an error is logged and counted. Costs what changed."""
        async with self._lock:
            await self._store(directory)

    async def _store(self, directory: Directory) -> None:
        head = directory.head()
        state: dict[str, Any] = {
            "broker_groups": head.broker_groups,
            "nodes": {node.node_id: node.address for node in head.nodes},
            "rules": head.rules,
            "paused": head.paused,
            "has_peers": head.has_peers,
            "removed_folders": head.removed_folders,
        }
        changed = [
            name for name, value in state.items() if (old := self._saved.get(name)) is not value and old != value
        ]
        routes, removed = directory.take_changed_routes()
        if not changed and not routes and not removed and not self.save_problem:
            return
        try:
            size = sum(len(state[name]) for name in changed if name != "has_peers") + len(routes) + len(removed)
            if self._log is None or self._log_bytes >= self._log_bytes_max or size > LOG_ITEMS_MAX:
                metadata = directory.metadata()
                await self._in_thread(lambda: self._replace(metadata))
                self.counters.rewrites += 1
            else:
                await self._in_thread(lambda: self._append(head, changed, routes, removed))
        except OSError as error:
            if not self.save_problem:
                logger.error("the route file %s can't be written: %s", self._path, error)
            self.counters.failures += 1
            self.save_problem = str(error)
            await self._in_thread(self._close_log)
            return
        if self.save_problem:
            logger.info("the route file %s is written again", self._path)
        self.save_problem = ""
        self.counters.saves += 1
        self._saved = state

    def close(self) -> None:
        """End the thread after the work that it has."""
        self._thread.submit(self._close_log)
        self._thread.shutdown(wait=False)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    # --- in the thread ---------------------------------------------------------------------------------------------

    def _replace(self, metadata: Metadata) -> None:
        """Store everything in the file, and begin an empty log."""
        self._close_log()
        parts = list(encode(metadata))
        replace_file(self._disk, self._path, parts)
        header = _line({"continues": _digest(*parts)})
        replace_file(self._disk, self._log_path, [header])
        self._log = self._disk.open(self._log_path, writable=True)
        self._log_bytes = len(header)
        self._log_bytes_max = max(LOG_BYTES_MIN, sum(map(len, parts)))

    def _append(self, head: Metadata, changed: list[str], routes: list[Route], removed: list[str]) -> None:
        assert self._log is not None
        change = {name: getattr(head, name) for name in changed}
        line = _line({"changed": change, "routes": routes, "removed": removed})
        self._log.pwritev([line], self._log_bytes)
        self._log.datasync()
        self._log_bytes += len(line)

    def _close_log(self) -> None:
        log, self._log = self._log, None
        if log is not None:
            log.close()

    def _load(self) -> Metadata | None:
        try:
            data = self._read(self._path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._load_failed(str(error))
            return None
        try:
            content = json.loads(data)
            metadata = decode(content)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            kept = f"{self._path}{UNREADABLE}"
            try:
                self._disk.rename(self._path, kept)
            except OSError as rename_error:
                kept = f"nowhere: {rename_error}"
            self._load_failed(f"{type(error).__name__}: {error}; kept as {kept}")
            return None
        try:
            return self._with_changes(content, _digest(data)) or metadata
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            self._load_failed(f"the changes in {self._log_path} are lost: {type(error).__name__}: {error}")
            return metadata

    def _with_changes(self, content: dict[str, Any], digest: str) -> Metadata | None:
        """The metadata of the file's content and of the log; None without a log of this file. Raises as `decode`, and OSError."""
        try:
            lines = self._read(self._log_path).split(b"\n")[:-1]
        except FileNotFoundError:
            return None
        changes = list(_changes(lines))
        if not changes or changes[0].get("continues") != digest:
            return None
        if len(changes) < len(lines) - 1:
            self._load_failed(f"{self._log_path} is damaged; {len(lines) - len(changes)} changes are lost")
        routes = {route["subject"]: route for route in content["routes"]}
        for change in changes[1:]:
            content.update(change["changed"])
            for subject in change["removed"]:
                routes.pop(subject, None)
            routes.update((route["subject"], route) for route in change["routes"])
        return decode({**content, "routes": list(routes.values())})

    def _load_failed(self, problem: str) -> None:
        self.counters.failures += 1
        self.load_problem = problem
        logger.error("the route file %s is unreadable: %s", self._path, problem)

    def _read(self, path: str) -> bytes:
        file = self._disk.open(path, writable=False)
        try:
            return bytes(file.pread(file.size(), 0))
        finally:
            file.close()


def _digest(*parts: bytes) -> str:
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _line(change: dict[str, Any]) -> bytes:
    """A line of the log: digest and JSON."""
    data = json.dumps(change, separators=(",", ":"), default=_plain).encode()
    return _digest(data).encode() + b" " + data + b"\n"


def _changes(lines: list[bytes]) -> Iterator[dict[str, Any]]:
    """The changes of the lines up to the first invalid one, which a crash may have left at the end."""
    for line in lines:
        digest, _, data = line.partition(b" ")
        if digest.decode("ascii", "replace") != _digest(data):
            return
        yield json.loads(data)


def encode(metadata: Metadata) -> Iterator[bytes]:
    """The file's content: a JSON object, in parts."""
    names = ("broker_groups", "nodes", "paused", "has_peers", "removed_folders")
    head = {name: getattr(metadata, name) for name in names}
    yield json.dumps(head, default=_plain)[:-1].encode()
    yield b', "rules": {'
    rules = list(metadata.rules.items())
    for begin in range(0, len(rules), ITEMS_PER_PART):
        part = json.dumps(dict(rules[begin : begin + ITEMS_PER_PART]), default=_plain)
        yield (b", " if begin else b"") + part[1:-1].encode()
    yield b'}, "routes": ['
    for begin in range(0, len(metadata.routes), ITEMS_PER_PART):
        part = json.dumps(metadata.routes[begin : begin + ITEMS_PER_PART], default=_plain)
        yield (b", " if begin else b"") + part[1:-1].encode()
    yield b"]}"


def _plain(item: Any) -> Any:
    """A set, or a value of `metaserver.domain`, as JSON has it."""
    if isinstance(item, frozenset):
        return sorted(item)
    if isinstance(item, BrokerGroup):
        return item.record()
    return {field.name: getattr(item, field.name) for field in fields(item)}


def decode(content: dict[str, Any]) -> Metadata:
    """The metadata of a file's content. Raises KeyError, TypeError, ValueError or AttributeError."""
    groups = tuple(map(BrokerGroup.of, content["broker_groups"]))
    nodes = tuple(Node(**node) for node in content["nodes"])
    routes = tuple(
        Route(
            **{
                **route,
                "broker_groups": tuple(route["broker_groups"]),
                "phases": {name: Phase(phase) for name, phase in route["phases"].items()},
            }
        )
        for route in content["routes"]
    )
    rules = {}
    for subject, values in content["rules"].items():
        allowed = values["allowed_groups"]
        rules[subject] = SubjectRule(**values | {"allowed_groups": None if allowed is None else tuple(allowed)})
    paused = frozenset((subject, group, consumer) for subject, group, consumer in content["paused"])
    removed = frozenset((name, folder) for name, folder in content.get("removed_folders", ()))
    return Metadata(groups, nodes, routes, rules, paused, content["has_peers"], removed)
