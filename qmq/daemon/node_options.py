"""Settings that every node with a log has."""

from dataclasses import dataclass

from qmq.daemon.daemon_options import DaemonOptions
from qmq.options import option
from qmq.protocol.frames import FRAME_BYTES_MAX, MESSAGE_BYTES_MAX

MIB = 1 << 20
READ_BYTES_PER_SECOND = 16 * MIB
"""Measured: docs/performance.md."""


@dataclass(frozen=True)
class NodeOptions(DaemonOptions):
    """What broker and delay nodes share; each sets its own defaults."""

    broker_group: str = option("", help="broker group of this node", former="group")
    node_id: str = option("", help="name of this node, unique in the system; default: <broker group>-a")
    port: int = option(0, help="TCP port for clients; 0: any free port", minimum=0, maximum=65535)
    admin_host: str = option("127.0.0.1", help="address of the admin HTTP server")
    admin_port: int = option(0, help="port of the admin HTTP server; 0: any free port", minimum=0, maximum=65535)
    meta: str = option(
        "http://127.0.0.1:8080/meta/address", help="address page of the metaserver; empty: run without a metaserver"
    )
    flush: str = option(
        "always",
        help="always: a send is answered after its sync; interval, os: earlier, so a power failure loses the latest messages",
        choices=("always", "interval", "os"),
    )
    flush_interval_seconds: float = option(0.5, help="interval of syncs with flush=interval", unit="s", minimum=0.01)
    segment_bytes: int = option(
        1024 * MIB,
        help="maximum size of a log segment; a new log starts with smaller ones",
        unit="bytes",
        minimum=1 * MIB,
    )
    disk_reserve_bytes: int = option(
        16 * MIB,
        help="free space below which sends are rejected, so that stored messages can still be processed",
        unit="bytes",
        minimum=MIB,
    )
    checkpoint_bytes: int = option(
        256 * MIB,
        help="amount of log between checkpoints, and so the maximum that a restart replays",
        unit="bytes",
        minimum=MIB,
    )
    checkpoint_seconds: float = option(60.0, help="maximum time between checkpoints", unit="s", minimum=1)
    message_bytes_max: int = option(
        MESSAGE_BYTES_MAX,
        help="maximum message size; a larger message is rejected, the rest of its batch is stored",
        unit="bytes",
        minimum=64 * 1024,
    )
    frame_bytes_max: int = option(
        FRAME_BYTES_MAX,
        help="maximum size of a client's frame; official producers send 30 messages per frame, whatever their size",
        unit="bytes",
        minimum=64 * 1024,
    )
    large_frames_bytes_max: int = option(
        512 * MIB,
        help="memory of all connections for frames above 1 MiB that are being received; further frames wait unread",
        unit="bytes",
        minimum=64 * 1024,
    )
    in_flight_total_bytes_max: int = option(
        1024 * MIB,
        help="unanswered requests of all connections, above which reading pauses",
        unit="bytes",
        minimum=64 * 1024,
    )
    answer_total_bytes_max: int = option(
        64 * MIB,
        help="responses of all connections that wait for the disk or the client; responses become smaller near this limit",
        unit="bytes",
        minimum=64 * 1024,
    )
    in_flight_bytes_max: int = option(
        64 * MIB,
        help="unanswered requests of a connection, above which reading pauses",
        unit="bytes",
        minimum=64 * 1024,
    )
    read_bytes_per_second: int = option(
        READ_BYTES_PER_SECOND,
        help="maximum rate of all bulk reads together, so that producers are not slowed down; 0: no limit",
        unit="bytes/s",
        minimum=0,
    )
    read_only: bool = option(False, help="start in read-only mode: sends are rejected")
