"""The servers that the clients are measured against, on free ports of the loopback interface, with temporary data folders."""

import contextlib
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks.clients import environment
from tests.support.servers.ports import free_port
from tests.support.servers.services import RedisServer, Server, ServerMissing
from tests.support.servers.system import System

SEGMENT_BYTES = 1 << 30
KAFKA_CLUSTER_ID = "cHlxbXFfYmVuY2htYXJrcw"
KAFKA_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""
"""What one server needs instead of three, and no pause before the first member of a group receives; else the defaults."""
KAFKA_JAVA = ("java", "-server", "-Xms512m", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")


@dataclass(frozen=True, slots=True)
class Running:
    """A server that serves: its address for clients, its processes, and what it is."""

    address: str
    pids: tuple[int, ...]
    text: str


class DurableRedis(RedisServer):  # type: ignore[misc]
    """The Redis of the tests with an append-only file that is synced before each answer. It is not rewritten meanwhile."""

    def _command(self) -> list[str]:
        command: list[str] = super()._command()
        command[command.index("--appendonly") + 1] = "yes"
        return [*command, "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"]


class NatsServer(Server):  # type: ignore[misc]
    """NATS with JetStream."""

    name = "nats"

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def version(self) -> str:
        done = subprocess.run([self._program, "--version"], capture_output=True, text=True, check=True)
        return done.stdout.split("v")[-1].strip()

    def _prepare(self) -> None:
        self._program = environment.program("nats-server", "the Debian package nats-server has it")

    def _command(self) -> list[str]:
        return [self._program, "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(self.folder / "data")]

    def _probe(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
            if not connection.recv(4).startswith(b"INFO"):
                raise ConnectionError("not ready")


class KafkaServer(Server):  # type: ignore[misc]
    """One Kafka in KRaft mode, controller and broker in one process."""

    name = "kafka"

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def version(self) -> str:
        (jar,) = self._jars.glob("kafka-server-[0-9]*.jar")
        return jar.stem.rpartition("-")[2]

    def _prepare(self) -> None:
        self._jars = environment.kafka_jars()
        settings = KAFKA_SETTINGS.format(port=self.port, controller_port=free_port(), folder=self.folder)
        self._settings = self.folder / "server.properties"
        self._settings.write_text(settings)
        self._run(*self._java("kafka.tools.StorageTool"), "format", "-t", KAFKA_CLUSTER_ID, "-c", str(self._settings))

    def _java(self, program: str) -> list[str]:
        return [*KAFKA_JAVA, "-cp", f"{self._jars}/*", program]

    def _command(self) -> list[str]:
        return [*self._java("kafka.Kafka"), str(self._settings)]

    def _probe(self) -> None:
        socket.create_connection(("127.0.0.1", self.port), timeout=1).close()


@contextlib.contextmanager
def _service(kind: type[Server], text: str) -> Iterator[Running]:
    server = kind()
    try:
        server.start()
        yield Running(server.url, (server.pid,), text.format(version=server.version))
    finally:
        server.close()


@contextlib.contextmanager
def _own() -> Iterator[Running]:
    flags = ("--segment-bytes", str(SEGMENT_BYTES))
    with (
        tempfile.TemporaryDirectory(prefix="qmq-clients-", ignore_cleanup_errors=True) as folder,
        System(Path(folder), groups=1, broker_flags=flags) as system,
    ):
        system.start()
        pids = tuple(process.pid for process in system.processes)
        yield Running(system.meta_url, pids, f"PyQMQ {version('pyqmq')}: metaserver and one broker, flush=always")


SERVERS: dict[str, Callable[[], AbstractContextManager[Running]]] = {
    "kafka": lambda: _service(
        KafkaServer,
        "Kafka {version}: one server, KRaft, topics of one partition, no flush per message (log.flush.interval.messages not set)",
    ),
    "redis": lambda: _service(DurableRedis, "Redis {version}: appendonly yes, appendfsync always, no rewrites"),
    "nats": lambda: _service(NatsServer, "NATS {version}: JetStream, file storage, synced every two minutes"),
    "pyqmq": _own,
}
"""By name; each raises `ServerMissing` when it is not installed."""

__all__ = ["SERVERS", "Running", "ServerMissing"]
