"""A whole system on simulated hosts: metaservers, broker nodes, delay node. Each host can be killed, cut off and paused."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from broker_node.broker import Broker
from broker_node.options import BrokerOptions
from delay_node.delay_node import DelayNode
from delay_node.options import DelayOptions
from metaserver.options import MetaOptions
from metaserver.server import Metaserver
from qmq.errors import LogError, QmqError, SettingError
from qmq.net.discovery import http_post_json
from qmq_node.node.node import Node
from qmq_node.process.life import LifeEnded
from qmq_node.process.machine import Machine
from tests.sim.world.database import Database, SimulatedRepository
from tests.sim.world.disk import DiskWeather, SimulatedDisk
from tests.sim.world.loop import START_SECONDS, Process, SimulatedClock, SimulatedLoop, SimulatedThread, current_process
from tests.sim.world.network import SimulatedListener
from tests.support.disks.checked_disk import CheckedDisk
from tests.support.disks.memory_disk import MemoryDisk

RESTART_SECONDS = 1.0
"""The launcher starts a process that has ended again after so long."""
META_PORTS, META_PORTS_STEP, FIRST_NODE_PORT = (20_880, 8_080), 2, 20_900
"""Ports of the first metaserver for frames and pages, and how far those of the next one are from them."""
LOG_LINES = 400
"""Newest log lines of a run that a failure prints."""
SYNC_SECRET = "the secret of each broker group in simulations"

SMALL: dict[str, Any] = {
    "segment_bytes": 256 << 10,
    "disk_reserve_bytes": 64 << 10,
    "checkpoint_seconds": 5.0,
    "stop_seconds": 1.0,
}
"""Settings of nodes that reach the limits of segments and checkpoints within a run."""


MemberNode = Broker | DelayNode
"""A node that can be one of several members of its group."""


class LogLines(logging.Handler):
    """Keeps the newest log lines with virtual time."""

    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__(logging.INFO)
        self._loop = loop
        self.lines: deque[str] = deque(maxlen=LOG_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        process = current_process()
        host = process.host if process is not None else "-"
        seconds = self._loop.now - START_SECONDS
        self.lines.append(f"{seconds:9.3f} {record.levelname:7} {host} {record.name}: {record.getMessage()}")


class Host:
    """A machine that runs one server, again and again."""

    def __init__(
        self, cluster: "Cluster", name: str, port: int, make: Callable[["Host", Machine], Node | Metaserver]
    ) -> None:
        self._cluster = cluster
        self._loop = cluster.loop
        self.name = name
        self.port, self.admin_port = port, port + 1
        self._make = make
        self.weather = DiskWeather()
        self._rng = cluster.loop.rng(f"disk of {name}")
        self.disk = SimulatedDisk(cluster.loop, name, self._rng, self.weather)
        self.clock = SimulatedClock(cluster.loop)
        self.process: Process | None = None
        self.server: Node | Metaserver | None = None
        self.starts = 0
        """Servers that were started, also further ones in a process."""
        self.exits: list[BaseException | None] = []
        """How the server's processes ended by themselves: with an error, or without."""
        self.is_wanted = False
        self.has_bad_disk = False
        """Faults of its disk were injected: its process may end by them."""
        self.has_damaged_log = False
        """A test has damaged its log: the node may replace it. Otherwise that would hide a defect."""
        self.has_started, self.has_ended = asyncio.Event(), asyncio.Event()
        self._stop: asyncio.Event | None = None

    @property
    def is_serving(self) -> bool:
        """Whether its server runs and has started."""
        return self.server is not None

    def may_exit(self, error: BaseException | None) -> bool:
        """Whether a fault that was injected explains that the server ended by itself."""
        if self._cluster.database.was_faulty and isinstance(error, ConnectionError):
            return True
        causes = (error, error.__cause__) if error is not None else ()
        return self.has_bad_disk and any(isinstance(cause, LogError | OSError | SettingError) for cause in causes)

    def start(self) -> None:
        """Start the server; it is started again whenever it ends by itself."""
        assert self.process is None
        self.is_wanted = True
        self.starts += 1
        checked = CheckedDisk(self.disk)
        self._cluster.disks.append(checked)
        machine = Machine(
            clock=self.clock,
            disk=checked,
            listen=SimulatedListener,
            start_thread=SimulatedThread,
            rng=self._loop.rng(f"{self.name} {self.starts}"),
        )
        self.process = Process(self._loop, self.name)
        self.has_ended.clear()
        self._stop = asyncio.Event()
        self.process.start(self._run(self.process, self._stop, machine, checked))

    async def _run(self, process: Process, stop: asyncio.Event, machine: Machine, checked: CheckedDisk) -> None:
        error: BaseException | None = None
        try:
            while await self._live(stop, machine, checked):
                self.starts += 1
        except Exception as raised:  # noqa: BLE001 - the process ends, as in `qmq_node.process.runner`
            error = raised
            if not isinstance(raised, QmqError | OSError):
                self._loop.call_exception_handler({"message": f"{self.name} failed", "exception": raised})
        finally:
            self._loop.call_soon(self._ended, process, error, context=self._cluster.network.context)

    async def _live(self, stop: asyncio.Event, machine: Machine, checked: CheckedDisk) -> bool:
        """Run one server; whether another one follows it in the process, as in `qmq_node.daemon.main`."""
        checked.node = server = self._make(self, machine)
        try:
            try:
                await server.start()
                if isinstance(server, MemberNode) and server.log.failed is not None and not self.has_damaged_log:
                    raise server.log.failed
                self.server = server
                self.has_started.set()
                await server.serve(stop)
            finally:
                self.server = None
                await server.close()
            server.failure.check()
        except LifeEnded:
            return not stop.is_set()
        return False

    def _ended(self, process: Process, error: BaseException | None) -> None:
        if self.process is not process:
            return
        if self.is_wanted:
            self.exits.append(error)
        self._end_process()
        if self.is_wanted:
            self._loop.call_later(RESTART_SECONDS, self._start_again, context=self._cluster.network.context)

    def _start_again(self) -> None:
        if self.is_wanted and self.process is None:
            self.start()

    def _end_process(self) -> None:
        assert self.process is not None
        self.process.kill()
        self._cluster.network.process_killed(self.process)
        self._forget()
        self.disk = self.disk.after_process_end()  # type: ignore[assignment]

    def _forget(self) -> None:
        self.process = self.server = None
        self.has_started.clear()
        self.has_ended.set()

    def kill(self) -> None:
        """End the server as by kill -9. `start` starts it again."""
        self.is_wanted = False
        if self.process is not None:
            self._end_process()

    def cut_power(self) -> None:
        """Power off: what was not synced may be gone. `start` after `power_on` of the network."""
        self.is_wanted = False
        if self.process is not None:
            self.process.kill()
            self._forget()
        self._cluster.network.power_off(self.name)
        self.disk = self.disk.after_power_cut(self._rng)  # type: ignore[assignment]

    async def stop(self) -> None:
        """End the server gracefully, and wait for it."""
        self.is_wanted = False
        if self._stop is not None and self.process is not None:
            self._stop.set()
            await self.has_ended.wait()


class Cluster:
    """The servers of one run."""

    def __init__(
        self,
        loop: SimulatedLoop,
        *,
        brokers: int = 2,
        delays: int = 1,
        metas: int = 1,
        copies: int = 1,
        delay_copies: int = 1,
        broker_settings: dict[str, Any] | None = None,
        delay_settings: dict[str, Any] | None = None,
    ) -> None:
        self.loop = loop
        self.network = loop.network
        self.database = Database(loop)
        self.log = LogLines(loop)
        self.disks: list[CheckedDisk] = []
        """Of all processes that were started."""
        self._route_files: dict[str, MemoryDisk] = {}
        """By metaserver, what `back_up` copied."""
        self._ports = FIRST_NODE_PORT
        self.metas = {
            name: Host(self, name, META_PORTS[0] + META_PORTS_STEP * number, self._make_meta)
            for number, name in enumerate(("meta", *(f"meta{number}" for number in range(2, metas + 1))))
        }
        self.meta = self.metas["meta"]
        """The first one."""
        self.meta_url = ",".join(
            f"http://127.0.0.1:{META_PORTS[1] + META_PORTS_STEP * number}/meta/address" for number in range(metas)
        )
        self.copies = copies
        settings = {**SMALL, **(broker_settings or {})}
        self.brokers = {f"g{number}": self.broker(f"g{number}", "a", settings) for number in range(1, brokers + 1)}
        self.other_members = {
            f"{group}-{letter}": self.broker(group, letter, settings)
            for group in self.brokers
            for letter in "bc"[: copies - 1]
        }
        """Further members of groups, by node id; the first one of each is in `brokers` or `delays`."""
        settings = {**SMALL, **(delay_settings or {})}
        self.delays = {f"d{number}": self.delay_node(f"d{number}", "a", settings) for number in range(1, delays + 1)}
        self.other_members |= {
            f"{group}-{letter}": self.delay_node(group, letter, settings)
            for group in self.delays
            for letter in "bc"[: delay_copies - 1]
        }

    @property
    def nodes(self) -> dict[str, Host]:
        """Brokers and delay nodes by broker group."""
        return {**self.brokers, **self.delays}

    @property
    def hosts(self) -> dict[str, Host]:
        """All servers."""
        return {**self.metas, **self.nodes, **self.other_members}

    def members(self, group: str) -> dict[str, Host]:
        """The hosts of a broker group's members, by node id."""
        others = {name: host for name, host in self.other_members.items() if name.startswith(f"{group}-")}
        return {f"{group}-a": self.nodes[group], **others}

    @property
    def delay_nodes(self) -> list[Host]:
        """All members of delay groups."""
        return [host for group in self.delays for host in self.members(group).values()]

    def serving(self) -> dict[str, Host]:
        """By broker group, the member that the stored membership has as its master; of a group without slaves, its only one."""
        return self._serving(self.brokers)

    def serving_delay_nodes(self) -> dict[str, Host]:
        """As `serving`, by delay group."""
        return self._serving(self.delays)

    def _serving(self, groups: dict[str, Host]) -> dict[str, Host]:
        stored = self.database.stored.groups
        return {
            group: self.members(group).get(stored[group].membership.master if group in stored else "", first)
            for group, first in groups.items()
        }

    async def confirm_clocks(self) -> None:
        """Confirm the clocks of delay nodes, as an operator does: one that was put right may have jumped ahead, and messages wait
        until then."""
        for host in self.delay_nodes:
            if isinstance(host.server, DelayNode) and host.server.is_ready:
                await http_post_json(f"http://127.0.0.1:{host.admin_port}/clock/confirm", b"{}", timeout_s=5)

    def broker(self, group: str, letter: str, settings: dict[str, Any]) -> Host:
        """A host for a member of a broker group, which is not started."""
        return self._member(group, letter, Broker, BrokerOptions, settings)

    def delay_node(self, group: str, letter: str, settings: dict[str, Any]) -> Host:
        """A host for a member of a delay group, which is not started."""
        return self._member(group, letter, DelayNode, DelayOptions, settings)

    def _member(self, group: str, letter: str, kind: Any, options: Any, settings: dict[str, Any]) -> Host:
        node = {"broker_group": group, "node_id": f"{group}-{letter}", "sync_token": SYNC_SECRET}
        name = group if letter == "a" else f"{group}-{letter}"
        return self._node(name, kind, options, {**node, **settings})

    def _make_meta(self, host: Host, machine: Machine) -> Metaserver:
        http_port = META_PORTS[1] + host.port - META_PORTS[0]
        options = MetaOptions(
            data_dir="/meta", tcp_port=host.port, http_port=http_port, new_groups="allow", copies=self.copies
        )
        return Metaserver(options, SimulatedRepository(self.database, host.clock, host.name), machine)

    def _node(self, name: str, kind: Any, options: Any, settings: dict[str, Any]) -> Host:
        port, admin_port = self._ports, self._ports + 1
        self._ports += 2
        settings = {"sync_port": self._ports, **settings}
        self._ports += 1

        def make(host: Host, machine: Machine) -> Node:
            node: Node = kind(
                options(
                    **{
                        "broker_group": name,
                        "data_dir": f"/{name}",
                        "port": port,
                        "admin_port": admin_port,
                        "meta": self.meta_url,
                        **settings,
                    }
                ),
                machine,
            )
            return node

        return Host(self, name, port, make)

    def back_up(self) -> None:
        """Keep copies of the database and of the metaservers' route files."""
        self.database.back_up()
        self._route_files = {name: host.disk.after_kill() for name, host in self.metas.items()}

    def restore_route_file(self, meta: Host, *, is_emptied: bool) -> None:
        """The data folder of a metaserver, which does not run, is that of the last copy, or a new one."""
        disk = SimulatedDisk(self.loop, meta.name, self.loop.rng("new disk"), meta.weather)
        meta.disk = disk if is_emptied else self._route_files[meta.name].after_kill()  # type: ignore[assignment]

    async def start(self) -> None:
        """Start all servers, and wait until they serve."""
        for host in self.hosts.values():
            host.start()
        for host in self.hosts.values():
            await host.has_started.wait()
        await asyncio.sleep(2.0)  # nodes have registered

    async def __aenter__(self) -> "Cluster":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Kill all servers, also those that are paused: the loop of a test would wait for their tasks."""
        for host in self.hosts.values():
            host.kill()
        self.assert_loops_clean()

    async def stop(self) -> None:
        """End all servers gracefully."""
        for host in reversed(self.hosts.values()):
            await host.stop()
        self.assert_loops_clean()

    def assert_loops_clean(self) -> None:
        """Fail if a server waited for its disk on the event loop."""
        for disk in self.disks:
            disk.assert_clean()
