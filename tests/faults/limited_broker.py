"""A broker that may open few files."""

import asyncio
import os
import shlex
import subprocess
import sys
from pathlib import Path

from qmq.errors import ConnectionLost
from qmq.net.caller import Caller
from tests.support.servers.ports import free_port
from tests.support.servers.processes import PROJECT


class LimitedBroker:
    """A broker started by a shell that sets limits first."""

    def __init__(self, folder: Path, limits: str, log: Path) -> None:
        self.port = free_port()
        command = [
            sys.executable, "-m", "broker_node", "--data-dir", str(folder), "--meta", "", "--port", str(self.port),
            "--admin-port", "0", "--segment-bytes", str(8 << 20), "--disk-reserve-bytes", str(4 << 20),
        ]  # fmt: skip
        self.log = log
        with open(log, "wb") as out:
            self.process = subprocess.Popen(
                ["bash", "-c", f"{limits}; exec {shlex.join(command)}"], stderr=out, cwd=PROJECT
            )

    async def connect(self) -> Caller:
        """A connection, as soon as it listens."""
        while True:
            caller = Caller("127.0.0.1", self.port)
            try:
                await caller.connect()
            except ConnectionLost:
                assert self.process.poll() is None, self.log.read_text()
                await asyncio.sleep(0.05)
            else:
                return caller

    def cpu_seconds(self) -> float:
        """Processor time used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(60)
