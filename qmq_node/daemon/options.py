"""Settings that every daemon has, and those that every node with a log has."""

from dataclasses import dataclass

from qmq.options import METRICS_TOKEN_HELP, NODE_TOKEN_FILE_HELP, NODE_TOKEN_HELP, option, size_option
from qmq.protocol.frames import FRAME_BYTES_MAX, MESSAGE_BYTES_MAX

MIB = 1 << 20
READ_BYTES_PER_SECOND = 16 * MIB
"""Measured: docs/performance.md."""


@dataclass(frozen=True)
class DaemonOptions:
    """What broker nodes, delay nodes and metaservers share; each sets its own defaults."""

    host: str = option("127.0.0.1", help="address to listen on")
    advertise_host: str = option("", help="host name or address that clients connect to; default: host")
    data_dir: str = option("", help="data folder of this process")
    admin_names: str = option(
        "", help="additional host names, separated by commas, under which admin pages are requested"
    )
    node_token: str = option("", help=NODE_TOKEN_HELP, variable="QMQ_NODE_TOKEN", is_secret=True)
    node_token_file: str = option("", help=NODE_TOKEN_FILE_HELP, variable="QMQ_NODE_TOKEN_FILE")
    metrics_token: str = option("", help=METRICS_TOKEN_HELP, variable="QMQ_METRICS_TOKEN", is_secret=True)
    read_token: str = option("", help="token required for bulk reads (Spark); empty: no token is required")
    connections_max: int = option(10_000, help="maximum number of client connections", minimum=1)
    stop_seconds: float = option(10.0, help="how long a shutdown waits for running requests", unit="s", minimum=0)
    log_level: str = option("info", help="log level", choices=("debug", "info", "warning", "error"))
    log_format: str = option("plain", help="log format", choices=("plain", "json"))


@dataclass(frozen=True)
class NodeOptions(DaemonOptions):
    """What broker and delay nodes share; each sets its own defaults."""

    broker_group: str = option("", help="broker group of this node")
    node_id: str = option("", help="name of this node, unique in the system; default: <broker group>-a")
    port: int = option(0, help="TCP port for clients; 0: any free port", minimum=0, maximum=65535)
    admin_host: str = option(
        "127.0.0.1",
        help="address of the admin HTTP server; 0.0.0.0 and :: mean all, and advertise-host is registered with the metaserver",
    )
    admin_port: int = option(0, help="port of the admin HTTP server; 0: any free port", minimum=0, maximum=65535)
    sync_port: int = option(
        0, help="TCP port for slaves of the broker group; 0: any free port", minimum=0, maximum=65535
    )
    sync_token: str = option(
        "",
        help="secret that master and slaves prove to each other, at least 32 characters, the same on all nodes of a broker group;"
        " default: the node secret",
        variable="QMQ_SYNC_TOKEN",
        is_secret=True,
    )
    copy_bytes_per_second: int = option(
        64 * MIB,
        help="how fast a slave that is behind may catch up by reads of the master's disk; 0: no limit",
        unit="bytes/s",
        minimum=0,
    )
    scrub_bytes_per_second: int = option(
        16 * MIB,
        help="maximum rate at which stored data is read again to find what the disk has damaged; 0: it is not read again",
        unit="bytes/s",
        minimum=0,
    )
    scrub_days: float = option(
        7.0, help="time in which all stored data is read again once, evenly", unit="d", minimum=0.001
    )
    rack: str = option("", help="where the node runs, for example a machine or data center; shown to operators")
    meta: str = option(
        "http://127.0.0.1:8080/meta/address",
        help="addresses of all metaservers, host:port or URL, separated by commas; empty: run without a metaserver",
    )
    flush: str = option(
        "always",
        help="always: a send is answered after its sync; interval, os: earlier, so a power failure loses the latest messages."
        " Groups of several members require always",
        choices=("always", "interval", "os"),
    )
    flush_interval_seconds: float = option(0.5, help="interval of syncs with flush=interval", unit="s", minimum=0.01)
    segment_bytes: int = size_option(
        1024 * MIB, "maximum size of a log segment; a new log starts with smaller ones", minimum=MIB
    )
    disk_reserve_bytes: int = size_option(
        16 * MIB,
        "free space below which sends are rejected, so that stored messages can still be processed",
        minimum=MIB,
    )
    checkpoint_bytes: int = size_option(
        256 * MIB, "amount of log between checkpoints, and so the maximum that a restart replays", minimum=MIB
    )
    checkpoint_seconds: float = option(60.0, help="maximum time between checkpoints", unit="s", minimum=1)
    message_bytes_max: int = size_option(
        MESSAGE_BYTES_MAX, "maximum message size; a larger message is rejected, the rest of its batch is stored"
    )
    frame_bytes_max: int = size_option(
        FRAME_BYTES_MAX,
        "maximum size of a client's frame; official producers send 30 messages per frame, whatever their size",
    )
    large_frames_bytes_max: int = size_option(
        512 * MIB,
        "memory of all connections for frames above 1 MiB that are being received; further frames wait unread",
    )
    in_flight_total_bytes_max: int = size_option(
        1024 * MIB, "unanswered requests of all connections, above which reading pauses"
    )
    answer_total_bytes_max: int = size_option(
        64 * MIB,
        "responses of all connections that wait for the disk or the client; responses become smaller near this limit",
    )
    in_flight_bytes_max: int = size_option(64 * MIB, "unanswered requests of a connection, above which reading pauses")
    read_bytes_per_second: int = option(
        READ_BYTES_PER_SECOND,
        help="maximum rate of all bulk reads together, so that producers are not slowed down; 0: no limit",
        unit="bytes/s",
        minimum=0,
    )
    read_only: bool = option(False, help="start in read-only mode: sends are rejected")
