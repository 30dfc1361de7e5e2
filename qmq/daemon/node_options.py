"""Settings that every node with a log has."""

from dataclasses import dataclass

from qmq.options import METRICS_TOKEN_HELP, NODE_TOKEN_FILE_HELP, NODE_TOKEN_HELP, option
from qmq.protocol.frames import FRAME_BYTES_MAX, MESSAGE_BYTES_MAX

MIB = 1 << 20
READ_BYTES_PER_SECOND = 16 * MIB
"""Measured: docs/performance.md."""


@dataclass(frozen=True)
class NodeOptions:
    """What broker and delay nodes share; each sets its own defaults."""

    group: str = option("", help="the group this node belongs to")
    node_id: str = option("", help="this node's name, unique in the system; default: <group>-a")
    data_dir: str = option("", help="folder for everything this node keeps")
    host: str = option("127.0.0.1", help="address to listen on")
    advertise_host: str = option("", help="host name or address that clients are told; default: host")
    port: int = option(0, help="TCP port for clients; 0 takes a free one", minimum=0, maximum=65535)
    admin_host: str = option("127.0.0.1", help="address of the admin HTTP server")
    admin_port: int = option(0, help="port of the admin HTTP server; 0 takes a free one", minimum=0, maximum=65535)
    admin_names: str = option("", help="further host names, separated by commas, by which admin pages are requested")
    node_token: str = option("", help=NODE_TOKEN_HELP, variable="QMQ_NODE_TOKEN", is_secret=True)
    node_token_file: str = option("", help=NODE_TOKEN_FILE_HELP, variable="QMQ_NODE_TOKEN_FILE")
    metrics_token: str = option("", help=METRICS_TOKEN_HELP, variable="QMQ_METRICS_TOKEN", is_secret=True)
    meta: str = option(
        "http://127.0.0.1:8080/meta/address", help="the metaserver's address page; empty: run without a metaserver"
    )
    flush: str = option(
        "always",
        help="always: a send is answered when synced; interval, os: answered earlier, a power cut loses the newest",
        choices=("always", "interval", "os"),
    )
    flush_interval_seconds: float = option(0.5, help="with flush=interval, how often to sync", unit="s", minimum=0.01)
    segment_bytes: int = option(
        1024 * MIB,
        help="largest size of a log segment; a new log begins with smaller ones",
        unit="bytes",
        minimum=1 * MIB,
    )
    disk_reserve_bytes: int = option(
        16 * MIB,
        help="free space below which sends are refused, so that what is stored can still be worked off",
        unit="bytes",
        minimum=MIB,
    )
    checkpoint_bytes: int = option(
        256 * MIB,
        help="a checkpoint is made after this much log, so that a restart replays no more",
        unit="bytes",
        minimum=MIB,
    )
    checkpoint_seconds: float = option(60.0, help="a checkpoint is made at least this often", unit="s", minimum=1)
    message_bytes_max: int = option(
        MESSAGE_BYTES_MAX,
        help="largest message; a larger one is refused, the rest of its batch is stored",
        unit="bytes",
        minimum=64 * 1024,
    )
    frame_bytes_max: int = option(
        FRAME_BYTES_MAX,
        help="largest frame a client may send; official producers send 30 messages at a time, whatever their size",
        unit="bytes",
        minimum=64 * 1024,
    )
    large_frames_bytes_max: int = option(
        512 * MIB,
        help="memory for frames above 1 MiB that are being received, of all connections; further ones wait unread",
        unit="bytes",
        minimum=64 * 1024,
    )
    in_flight_total_bytes_max: int = option(
        1024 * MIB,
        help="bytes of unanswered requests of all connections; reading pauses above it",
        unit="bytes",
        minimum=64 * 1024,
    )
    answer_total_bytes_max: int = option(
        64 * MIB,
        help="bytes of answers of all connections that wait for the disk or the peer; answers become smaller towards it",
        unit="bytes",
        minimum=64 * 1024,
    )
    connections_max: int = option(10_000, help="most client connections", minimum=1)
    in_flight_bytes_max: int = option(
        64 * MIB,
        help="bytes of unanswered requests per connection; reading pauses above it",
        unit="bytes",
        minimum=64 * 1024,
    )
    read_token: str = option("", help="what reads in bulk (Spark) must carry; empty: everybody may read")
    read_bytes_per_second: int = option(
        READ_BYTES_PER_SECOND,
        help="most bytes that reads in bulk get, all readers together, so that producers hardly notice; 0: no limit",
        unit="bytes/s",
        minimum=0,
    )
    stop_seconds: float = option(10.0, help="how long a stop waits for requests under way", unit="s", minimum=0)
    read_only: bool = option(False, help="start refusing sends")
    log_level: str = option("info", help="what is logged", choices=("debug", "info", "warning", "error"))
    log_format: str = option("plain", help="how it is logged", choices=("plain", "json"))
