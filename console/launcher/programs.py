"""What a small system consists of: its processes, their command lines and ports."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.conf import settings

from console.http_protocol import UVICORN_OPTIONS
from console.redis_server import redis_command, redis_url
from qmq.net import node_secret

REDIS_MEMORY = "256mb"
"""Of the Redis that `up` starts; it holds live numbers, rate limits and words to run, nothing that must not be lost."""
WORKERS = "2"
"""Control loops that run at a time, without the one for analytics."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Where everything listens."""

    console: int
    meta_http: int
    meta_tcp: int
    brokers: tuple[tuple[int, int], ...]
    """(clients, admin) of each broker."""
    delay: tuple[int, int]
    """(clients, admin) of the delay node."""
    redis: int

    @classmethod
    def choose(cls, base: int | None) -> "Ports":
        """QMQ's defaults, or from `base` on in a row."""
        if base is None:
            return cls(8000, 8080, 20880, ((20881, 20981), (20883, 20983)), (20885, 20985), 6390)
        return cls(
            base, base + 1, base + 2, ((base + 3, base + 4), (base + 5, base + 6)), (base + 7, base + 8), base + 9
        )

    def named(self) -> dict[str, int]:
        """Ports with what they are for."""
        names = {"console": self.console, "metaserver HTTP": self.meta_http, "metaserver TCP": self.meta_tcp}
        for i, (clients, admin) in enumerate(self.brokers, 1):
            names |= {f"broker g{i}": clients, f"broker g{i} admin": admin}
        names |= {"delay d1": self.delay[0], "delay d1 admin": self.delay[1]}
        return names if "QMQ_REDIS_URL" in os.environ else names | {"Redis": self.redis}


@dataclass(frozen=True, slots=True)
class Program:
    """One process: its command line, and the page that answers 200 once it serves ("": it counts once it runs)."""

    name: str
    command: tuple[str, ...]
    ready_url: str
    """`http://...`, or `redis://...` for one that answers PING."""
    environment: Mapping[str, str] = field(default_factory=dict)
    is_node: bool = False
    """A broker or delay node: the system works without it."""


def programs(data_dir: str, ports: Ports, password: str) -> list[Program]:
    """Everything, in the order of starting; `password` is that of the Redis started here."""
    python = sys.executable
    meta = f"http://127.0.0.1:{ports.meta_http}/meta/address"
    redis = os.environ.get("QMQ_REDIS_URL", redis_url(ports.redis, password))
    shared = {
        "QMQ_DATA_DIR": data_dir,
        "QMQ_META": meta,
        "QMQ_REDIS_URL": redis,
        "DJANGO_SETTINGS_MODULE": "console.settings",
        # Celery warns of root at length; a container's only user is one.
        "PYTHONWARNINGS": "ignore:You're running the worker",
    }
    secret = node_secret_of(data_dir)
    shared |= secret
    database = ("--database-url", os.environ["QMQ_DATABASE_URL"]) if "QMQ_DATABASE_URL" in os.environ else ()
    found = []
    if "QMQ_REDIS_URL" not in os.environ:
        found.append(
            Program(
                "redis",
                (
                    *redis_command(data_dir, ports.redis),
                    *("--loglevel", "warning", "--maxmemory", REDIS_MEMORY, "--maxmemory-policy", "volatile-lru"),
                ),
                redis,
            )
        )
    found.append(
        Program(
            "meta",
            (
                python, "-m", "metaserver", "--data-dir", f"{data_dir}/meta", "--http-port", str(ports.meta_http),
                "--tcp-port", str(ports.meta_tcp), "--new-groups", "allow", *database,
            ),
            f"http://127.0.0.1:{ports.meta_http}/readyz",
            secret,
        )
    )  # fmt: skip
    nodes = [("broker_node", f"g{i}", places) for i, places in enumerate(ports.brokers, 1)]
    for module, group, (clients, admin) in (*nodes, ("delay_node", "d1", ports.delay)):
        found.append(
            Program(
                f"{group}-a",
                (
                    python, "-m", module, "--group", group, "--node-id", f"{group}-a",
                    "--data-dir", f"{data_dir}/{group}-a", "--port", str(clients), "--admin-port", str(admin), "--meta", meta,
                ),
                f"http://127.0.0.1:{admin}/readyz",
                secret,
                is_node=True,
            )
        )  # fmt: skip
    found.append(
        Program(
            "console",
            (
                python, "-m", "uvicorn", "console.asgi:application", "--host", "127.0.0.1", "--port", str(ports.console),
                "--log-level", "warning", *UVICORN_OPTIONS,
            ),
            f"http://127.0.0.1:{ports.console}/healthz",
            shared,
        )
    )  # fmt: skip
    celery = (python, "-m", "celery", "-A", "console.celery", "--quiet")
    worker = (*celery, "worker", "--loglevel", "warning", "--without-mingle", "--without-gossip")
    found += [
        Program("collector", (python, "-m", "console.manage", "collect"), "", shared),
        Program(
            "worker",
            (*worker, "--queues", settings.CELERY_TASK_DEFAULT_QUEUE, "--concurrency", WORKERS),
            "",
            shared,
        ),
        Program("beat", (*celery, "beat", "--loglevel", "warning", "--pidfile", ""), "", shared),
    ]
    if settings.ANALYTICS_EVERY_SECONDS:
        # One process, not two: a pool would be a second copy of the console in memory, which waits for the jobs' process.
        alone = (
            "--queues", settings.ANALYTICS_QUEUE, "--pool", "solo", "--hostname", "analytics@%h", "--without-heartbeat",
        )  # fmt: skip
        found.insert(-1, Program("analytics", (*worker, *alone), "", shared))
    return found


def node_secret_of(data_dir: str) -> dict[str, str]:
    """Where processes find the node secret: as the environment says, else in the data folder."""
    if node_secret.VARIABLE in os.environ:
        return {}
    path = os.environ.get(node_secret.FILE_VARIABLE) or os.path.join(data_dir, node_secret.FILE_NAME)
    return {node_secret.FILE_VARIABLE: os.path.abspath(path)}
