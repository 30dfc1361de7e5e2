"""Starts, watches and stops all processes of a small system."""

import asyncio
import fcntl
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from console.launcher.child import Child, GaveUp
from console.launcher.programs import COPIES, GROUPS, Ports, node_secret_of, programs
from console.launcher.redis_server import redis_password, write_redis_config
from qmq.errors import SettingError
from qmq.net import node_secret
from qmq.net.open_files import raise_open_files_limit
from qmq.private_files import make_private_dir

FILES_WANTED = 12_288
"""Files that one process may want open: a broker node's 10,000 connections, its log and its indexes."""
_COLOURS = (36, 32, 33, 35, 34, 31)


class Launcher:
    """All processes of one system."""

    def __init__(self, data_dir: str, ports: Ports, copies: int = COPIES) -> None:
        self._data_dir = os.path.abspath(data_dir)
        self._ports = ports
        make_private_dir(self._data_dir)
        self._redis_password = "" if "QMQ_REDIS_URL" in os.environ else redis_password(self._data_dir)
        """Of the Redis that is started here; "" when another one is used."""
        self._children = [
            Child(program, self._say) for program in programs(self._data_dir, ports, self._redis_password, copies)
        ]
        self._width = max(len(child.program.name) for child in self._children)
        self._is_tty = sys.stdout.isatty()
        self._lock_fd = -1

    def _say(self, name: str, text: str) -> None:
        prefix = f"{name:<{self._width}} | "
        if self._is_tty:
            prefix = f"\x1b[{_COLOURS[sum(name.encode()) % len(_COLOURS)]}m{prefix}\x1b[0m"
        print(f"{prefix}{text}", flush=True)

    def check(self) -> None:
        """Refuse what can't work before anything starts.

        Raises:
            SettingError: another system uses the folder, the node secret can't be used, or a port is taken.
        """
        raise_open_files_limit(FILES_WANTED)  # every process inherits it
        self._lock_fd = os.open(f"{self._data_dir}/up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SettingError(
                f"another system is running in {self._data_dir}; stop it, or choose another --data-dir"
            ) from error
        if self._redis_password:
            write_redis_config(self._data_dir, self._redis_password)
        secret = node_secret_of(self._data_dir)
        own_file = os.path.join(self._data_dir, node_secret.FILE_NAME)
        if secret.get(node_secret.FILE_VARIABLE) == own_file:
            node_secret.make_secret_file(Path(own_file))
        node_secret.NodeSecret.from_environment({**os.environ, **secret})
        for what, port in self._ports.named().items():
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError as error:
                    raise SettingError(
                        f"port {port} ({what}) is in use: {error.strerror}; choose other ports with --port-base"
                    ) from error

    async def run(self) -> int:
        """Start, watch, stop; the exit code."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        started: list[Child] = []
        try:
            starting = asyncio.create_task(self._start(started))
            stopping = asyncio.create_task(_set(stop))
            await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                starting.cancel()
                await asyncio.wait([starting])
                return 0
            starting.result()
            self._table()
            watching = [asyncio.create_task(child.watch()) for child in started]
            done, _ = await asyncio.wait([stopping, *watching], return_when=asyncio.FIRST_COMPLETED)
            for task in watching:
                if task not in done:
                    task.cancel()
            for task in done:
                if task is not stopping:
                    task.result()
            return 0
        except GaveUp as error:
            print(f"up: {error}", file=sys.stderr, flush=True)
            return 1
        finally:
            print("stopping", flush=True)
            await stop_in_stages(started)

    async def _start(self, started: list[Child]) -> None:
        # Each can start without the others. But it would log until it reaches Redis and the metaserver, so they are there first.
        services = [child for child in self._children if child.program.is_service]
        for child in services:
            started.append(child)
            await child.start()
        for child in services:
            await child.wait_ready()
        others = [child for child in self._children if not child.program.is_service]
        for child in others:
            started.append(child)
            await child.start()
        for child in others:
            try:
                await child.wait_ready()
            except GaveUp as error:
                if not child.program.is_node:
                    raise
                self._say("up", f"the system starts without it: {error}")

    def _table(self) -> None:
        ports = self._ports
        rows = [
            ("console", f"http://127.0.0.1:{ports.console}/"),
            ("metaserver", f"http://127.0.0.1:{ports.meta_http}/meta/address (TCP {ports.meta_tcp})"),
        ]
        for node, (clients, admin, _) in ports.nodes.items():
            rows.append((f"node {node}", f"127.0.0.1:{clients}, admin http://127.0.0.1:{admin}/stats"))
        rows.append(("data", self._data_dir))
        print()
        for name, text in rows:
            print(f"  {name:<12} {text}")
        exports = {"QMQ_META": f"http://127.0.0.1:{ports.meta_http}/meta/address"} if ports.meta_http != 8080 else {}
        if ports.console != 8000:
            exports["QMQ_CONSOLE"] = f"http://127.0.0.1:{ports.console}"
        for variable, value in {**exports, **node_secret_of(self._data_dir)}.items():
            print(f"  {'for qmq':<12} export {variable}={value}")
        print("\nready", flush=True)


def main(data_dir: str, port_base: int | None, copies: int, stored_copies: Mapping[str, int]) -> int:
    """Run a system until Ctrl-C; the exit code.

    Args:
        copies: how many members a new group gets.
        stored_copies: how many the groups have that exist already.
    """
    try:
        members = dict.fromkeys(GROUPS, copies) | dict(stored_copies)
        launcher = Launcher(data_dir, Ports.choose(port_base, members), copies)
        launcher.check()
    except SettingError as error:
        print(f"up: {error}", file=sys.stderr)
        return 2
    return asyncio.run(launcher.run())


async def stop_in_stages(children: Sequence[Child]) -> None:
    """Stop processes by the stages of their programs, and members of a group one after the other."""
    for stage in sorted({child.program.stop_stage for child in children}):
        chains: dict[str, list[Child]] = {}
        for child in children:
            if child.program.stop_stage == stage:
                chains.setdefault(child.program.broker_group or child.program.name, []).append(child)
        await asyncio.gather(*map(_stop_one_by_one, chains.values()))


async def _stop_one_by_one(members: Sequence[Child]) -> None:
    """Stop the members of a group, slaves first."""
    serving = await asyncio.gather(*(child.serves() for child in members)) if len(members) > 1 else [True]
    for _, child in sorted(zip(serving, members, strict=True), key=lambda member: member[0]):
        await child.stop()


async def _set(event: asyncio.Event) -> None:
    await event.wait()
