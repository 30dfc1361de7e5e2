"""Broker nodes whose disks a test makes slow or lets fail."""

from pathlib import Path

from tests.support.disks.faulty_node import VARIABLE
from tests.support.servers.system import System

MODULE = "tests.support.disks.faulty_node"
"""Their program: the `broker_module` of a system."""


class Disks:
    """The disks of the broker nodes of a system whose `broker_module` is MODULE."""

    def __init__(self, system: System) -> None:
        self._folder = system.folder
        for group in system.brokers:
            for node, process in system.members(group).items():
                process.set_environment(**{VARIABLE: str(self._control(node))})

    def _control(self, node: str) -> Path:
        return self._folder / f"{node}.syncs"

    def _set(self, node: str, text: str) -> None:
        # Renamed, so that a node never reads a part of it.
        new = self._control(node).with_suffix(".new")
        new.write_text(text)
        new.rename(self._control(node))

    def delay(self, node: str, seconds: float) -> None:
        """Make each sync of a node take so much longer from now on; 0: as usual."""
        self._set(node, f"delay {seconds}")

    def hang(self, node: str) -> None:
        """Let each sync of a node wait until `delay` is called."""
        self._set(node, "hang")

    def fail(self, node: str) -> None:
        """Make the next sync of a node fail."""
        self._set(node, "fail")

    def has_failed(self, node: str) -> bool:
        """Whether the sync of a node has failed since `fail`."""
        return not self._control(node).exists()
