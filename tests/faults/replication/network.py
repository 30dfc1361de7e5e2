"""Network namespaces with one process each, whose packets to each other can be lost, and a system in them. Needs root.

Each namespace has one end of a veth pair; the other end is in a bridge of the namespace that the test itself is in meanwhile.
Packets from one process to another are lost while the sender has a wrong hardware address for the receiver's IP address. Nothing
is refused or reset, as with an unplugged cable. The machine's own network does not change: browsers of other tests would drop
their requests with ERR_NETWORK_CHANGED.
"""

import contextlib
import ctypes
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from tests.support.required import missing
from tests.support.servers.processes import PROJECT
from tests.support.servers.system import System

CLIENTS = "clients"
"""The namespace of the test: of the thread that made the network, and of what it starts."""
META = "meta"
NOWHERE = "02:00:00:00:00:01"
"""A hardware address that no interface has."""
COMMAND_SECONDS = 30.0
CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)  # os.unshare and os.setns are of Python 3.12
_networks = itertools.count()


def _call(name: str, *arguments: int) -> None:
    """Call a function of libc. Raises OSError if it fails."""
    if getattr(_libc, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def ip(*arguments: str, is_required: bool = True) -> None:
    """Run a command of iproute2. Raises CalledProcessError if it fails and is required."""
    subprocess.run(["ip", *arguments], check=is_required, capture_output=True, timeout=COMMAND_SECONDS)


def require_namespaces() -> None:
    """Skip the test where network namespaces can't be created; fail it if only the program is missing and this is a CI run."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    if shutil.which("ip") is None:
        missing("ip (iproute2) is not on PATH: network namespaces can't be created")
    try:
        with Network([META]):
            pass
    except subprocess.CalledProcessError as error:
        pytest.skip(f"network namespaces can't be created: {error.stderr.decode(errors='replace').strip()}")
    except OSError as error:
        pytest.skip(f"network namespaces can't be created: {error}")


class Network:
    """Namespaces that reach each other and the thread that made them. Use it as `with`.

    That thread, and threads and processes that it starts inside the block, reach nothing else: the machine's loopback
    interface neither.

    Args:
        names: one namespace each.
    """

    def __init__(self, names: list[str]) -> None:
        # The kernel removes interfaces some time after their namespace; names have at most 15 characters.
        self._prefix = f"q{os.getpid() % 10**6}{next(_networks) % 100:02}"
        self._subnet = f"198.18.{os.getpid() % 250}"  # of the addresses for tests of networks, RFC 2544
        self._numbers = {name: number for number, name in enumerate(names, 1)}
        self._machine: int | None = None  # descriptor of the namespace to return to

    def __enter__(self) -> "Network":
        try:
            self._create()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _create(self) -> None:
        machine = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _call("unshare", CLONE_NEWNET)
        except OSError:
            os.close(machine)
            raise
        self._machine = machine
        ip("link", "set", "lo", "up")
        ip("link", "add", self._bridge, "type", "bridge")
        ip("addr", "add", f"{self.address(CLIENTS)}/24", "dev", self._bridge)
        ip("link", "set", self._bridge, "up")
        for name in self._numbers:
            namespace = self._namespace(name)
            ip("netns", "add", namespace)
            ip("link", "add", namespace, "type", "veth", "peer", "name", "eth0", "netns", namespace)
            ip("link", "set", namespace, "master", self._bridge, "up")
            ip("-n", namespace, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
            ip("-n", namespace, "link", "set", "eth0", "up")
            ip("-n", namespace, "link", "set", "lo", "up")

    def close(self) -> None:
        """Return to the machine's network and remove everything; what is not there is ignored."""
        for name in self._numbers:
            ip("netns", "del", self._namespace(name), is_required=False)
        if self._machine is not None:
            machine, self._machine = self._machine, None
            try:
                _call("setns", machine, CLONE_NEWNET)
            finally:
                os.close(machine)

    @property
    def _bridge(self) -> str:
        return f"{self._prefix}br"

    def _namespace(self, name: str) -> str:
        return f"{self._prefix}n{self._numbers[name]}"

    def address(self, name: str) -> str:
        """Return the IP address of a namespace."""
        return f"{self._subnet}.{10 + self._numbers[name] if name != CLIENTS else 1}"

    def runner(self, name: str) -> list[str]:
        """Return the command that runs a program in a namespace, with the same process ID."""
        return ["ip", "netns", "exec", self._namespace(name)]

    @contextlib.contextmanager
    def lost(self, *pairs: tuple[str, str]) -> Iterator[None]:
        """Lose all packets from the first to the second of each pair inside the block."""
        try:
            for sender, receiver in pairs:
                self._neighbor(sender, "replace", self.address(receiver), "lladdr", NOWHERE, "nud", "permanent")
            yield
        finally:
            for sender, receiver in pairs:
                self._neighbor(sender, "del", self.address(receiver))

    def _neighbor(self, sender: str, what: str, address: str, *arguments: str) -> None:
        if sender == CLIENTS:
            ip("neigh", what, address, *arguments, "dev", self._bridge)
        else:
            ip("-n", self._namespace(sender), "neigh", what, address, *arguments, "dev", "eth0")


class NetworkSystem(System):
    """A system whose metaserver and nodes are in namespaces of a network: META, and the names of nodes."""

    def __init__(self, folder: Path, network: Network, **parts: Any) -> None:
        self.network = network
        super().__init__(folder, **parts)
        for process in self.control_processes:
            process.run_from(PROJECT)  # a fork would be in the network of the fork server

    def host_of(self, name: str) -> str:
        return self.network.address(name)

    def runner_of(self, name: str) -> list[str]:
        return self.network.runner(name)
