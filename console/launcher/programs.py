"""What a small system consists of: its processes, their command lines and ports."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.conf import settings

from console.http.protocol import UVICORN_OPTIONS
from console.launcher.redis_server import redis_command, redis_url
from qmq.net import node_secret

REDIS_MEMORY = "256mb"
"""Of the Redis that `up` starts; it holds live numbers, rate limits and words to run, nothing that must not be lost."""
WORKERS = "2"
"""Background jobs that run at a time, without those for analytics and outboxes."""


COPIES = 2
"""How many members each broker or delay group has, unless `--copies` says otherwise."""
BROKER_GROUPS, DELAY_GROUP = ("g1", "g2"), "d1"
GROUPS = (*BROKER_GROUPS, DELAY_GROUP)
SUFFIXES = "abc"
"""Of the members of a group, as ends of their node IDs."""
_CLIENTS, _BROKERS, _SERVICES = 1, 2, 3
"""Stages of a stop: what uses brokers; brokers, which register with the metaserver; the metaserver and Redis."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Where everything listens."""

    console: int
    meta_http: int
    meta_tcp: int
    nodes: Mapping[str, tuple[int, int, int]]
    """By node ID: (clients, admin, sync). Fixed sync ports: no other program gets that of a node which starts again."""
    redis: int

    @classmethod
    def choose(cls, base: int | None, copies: Mapping[str, int] | None = None) -> "Ports":
        """QMQ's defaults, or from `base` on in a row.

        Args:
            copies: how many members each group has; those that are left out have COPIES.
        """
        if base is None:
            fixed, brokers, redis = (8000, 8080, 20880), [(20881, 20981), (20883, 20983)], 6390
            clients, admin = 20887, 20987
            sync = [20882, 20884, 20888, 20890, 20892, 20894]
            delays = [(20885, 20985, 20886), (20895, 20995, 20896), (20897, 20997, 20898)]
        else:
            fixed, brokers, redis = (base, base + 1, base + 2), [(base + 3, base + 4), (base + 5, base + 6)], base + 9
            clients, admin = base + 10, base + 11
            sync = list(range(base + 18, base + 24))
            delays = [
                (base + 7, base + 8, base + 24),
                (base + 25, base + 26, base + 27),
                (base + 28, base + 29, base + 30),
            ]
        # All members have a place in this order, so that a node's ports do not depend on `copies`.
        members = [f"{group}-{suffix}" for suffix in SUFFIXES for group in BROKER_GROUPS]
        brokers += [(clients + 2 * place, admin + 2 * place) for place in range(len(members) - len(brokers))]
        places = {node: (*ports, sync_port) for node, ports, sync_port in zip(members, brokers, sync, strict=True)}
        places |= zip((f"{DELAY_GROUP}-{suffix}" for suffix in SUFFIXES), delays, strict=True)
        wanted = [f"{group}-{suffix}" for group in GROUPS for suffix in SUFFIXES[: (copies or {}).get(group, COPIES)]]
        return cls(*fixed, {node: places[node] for node in wanted}, redis)

    def named(self) -> dict[str, int]:
        """Ports with what they are for."""
        names = {"console": self.console, "metaserver HTTP": self.meta_http, "metaserver TCP": self.meta_tcp}
        for node, (clients, admin, sync) in self.nodes.items():
            names |= {f"node {node}": clients, f"node {node} admin": admin, f"node {node} sync": sync}
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
    other_ready_urls: tuple[str, ...] = ()
    """It counts as ready, too, once one of these pages answers 200: another member serves the clients of its group."""
    stop_stage: int = _CLIENTS
    """Stages stop one after the other, the programs of a stage at the same time: a process ends well while what it uses runs."""
    broker_group: str = ""
    """Members of a group stop one after the other, the master last: a slave that has left costs nothing, while a switch-over would
    begin an epoch and wait for the new master, which then stops as well."""

    @property
    def is_service(self) -> bool:
        """Whether the others use it: Redis and the metaserver."""
        return self.stop_stage == _SERVICES


def programs(data_dir: str, ports: Ports, password: str, copies: int = COPIES) -> list[Program]:
    """Everything, in the order of starting.

    Args:
        password: of the Redis started here.
        copies: how many members a new group gets.
    """
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
        limits = ("--loglevel", "warning", "--maxmemory", REDIS_MEMORY, "--maxmemory-policy", "volatile-lru")
        server = (*redis_command(data_dir, ports.redis), *limits)
        found.append(Program("redis", server, redis, stop_stage=_SERVICES))
    found.append(
        Program(
            "meta",
            (
                python, "-m", "metaserver", "--data-dir", f"{data_dir}/meta", "--http-port", str(ports.meta_http),
                "--tcp-port", str(ports.meta_tcp), "--new-groups", "allow", "--copies", str(copies), *database,
            ),
            f"http://127.0.0.1:{ports.meta_http}/readyz",
            secret,
            stop_stage=_SERVICES,
        )
    )  # fmt: skip
    for node, (clients, admin, sync) in ports.nodes.items():
        group = node.rpartition("-")[0]
        is_broker = group != DELAY_GROUP
        members = [page for name, (_, page, _) in ports.nodes.items() if name.startswith(f"{group}-") and name != node]
        found.append(
            Program(
                node,
                (
                    python, "-m", "broker_node" if is_broker else "delay_node", "--broker-group", group, "--node-id", node,
                    "--data-dir", f"{data_dir}/{node}", "--port", str(clients), "--admin-port", str(admin), "--meta", meta,
                    "--sync-port", str(sync),
                ),
                f"http://127.0.0.1:{admin}/readyz",
                secret,
                is_node=True,
                stop_stage=_BROKERS if is_broker else _CLIENTS,
                broker_group=group,
                other_ready_urls=tuple(f"http://127.0.0.1:{page}/readyz" for page in members),
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
    queue = settings.CELERY_TASK_DEFAULT_QUEUE
    # One process, not two: a pool would be a second copy of the console in memory.
    alone = ("--pool", "solo", "--without-heartbeat")
    outbox = (*alone, "--queues", settings.OUTBOX_QUEUE, "--hostname", "outbox@%h")
    found += [
        Program("collector", (python, "-m", "console.manage", "collect"), "", shared),
        Program("worker", (*worker, "--queues", queue, "--concurrency", WORKERS), "", shared),
        Program("outbox", (*worker, *outbox), "", shared),
        Program("beat", (*celery, "beat", "--loglevel", "warning", "--pidfile", ""), "", shared),
    ]
    if settings.ANALYTICS_EVERY_SECONDS:
        analytics = (*alone, "--queues", settings.ANALYTICS_QUEUE, "--hostname", "analytics@%h")
        found.insert(-1, Program("analytics", (*worker, *analytics), "", shared))
    return found


def node_secret_of(data_dir: str) -> dict[str, str]:
    """Where processes find the node secret: as the environment says, else in the data folder."""
    if node_secret.VARIABLE in os.environ:
        return {}
    path = os.environ.get(node_secret.FILE_VARIABLE) or os.path.join(data_dir, node_secret.FILE_NAME)
    return {node_secret.FILE_VARIABLE: os.path.abspath(path)}
