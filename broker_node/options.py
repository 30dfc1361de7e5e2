"""The broker's settings: flags, environment (QMQ_BROKER_...), file."""

from dataclasses import dataclass

from qmq.daemon.options import option

MIB = 1 << 20


@dataclass(frozen=True)
class BrokerOptions:
    """Every setting of a broker node."""

    group: str = option("g1", help="the broker group this node belongs to")
    node_id: str = option("", help="this node's name, unique in the system; default: <group>-a")
    data_dir: str = option("var/broker", help="folder for everything this node keeps")
    host: str = option("127.0.0.1", help="address to listen on")
    advertise_host: str = option("", help="host name or address that clients are told; default: host")
    port: int = option(20881, help="TCP port for clients; 0 takes a free one", minimum=0, maximum=65535)
    admin_host: str = option("127.0.0.1", help="address of the admin HTTP server; it has no authentication yet")
    admin_port: int = option(20981, help="port of the admin HTTP server; 0 takes a free one", minimum=0, maximum=65535)
    meta: str = option(
        "http://127.0.0.1:8080/meta/address", help="the metaserver's address page; empty: run without a metaserver"
    )
    flush: str = option(
        "always",
        help="always: a send is answered when synced; interval, os: answered earlier, a power cut loses the newest",
        choices=("always", "interval", "os"),
    )
    flush_interval_seconds: float = option(0.5, help="with flush=interval, how often to sync", unit="s", minimum=0.01)
    segment_bytes: int = option(1024 * MIB, help="size of a log segment", unit="bytes", minimum=1 * MIB)
    retention_hours: float = option(72.0, help="how long messages are kept", unit="h", minimum=0.01)
    retention_bytes: int = option(0, help="most bytes of log kept; 0: no such limit", unit="bytes", minimum=0)
    disk_reserve_bytes: int = option(
        16 * MIB,
        help="free space below which sends are refused, so that acks and pulls go on",
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
    frame_bytes_max: int = option(16 * MIB, help="largest frame a client may send", unit="bytes", minimum=64 * 1024)
    connections_max: int = option(10_000, help="most client connections", minimum=1)
    in_flight_bytes_max: int = option(
        64 * MIB,
        help="bytes of unanswered requests per connection; reading pauses above it",
        unit="bytes",
        minimum=64 * 1024,
    )
    subjects_max: int = option(200_000, help="most subjects this node holds", minimum=1)
    groups_per_subject_max: int = option(10_000, help="most consumer groups of a subject", minimum=1)
    consumers_per_group_max: int = option(10_000, help="most consumers of a group", minimum=1)
    retry_delay_seconds: float = option(5.0, help="how long a retried message stays invisible", unit="s", minimum=0)
    consumer_lease_seconds: float = option(
        180.0,
        help="a consumer silent for this long loses its unacked messages to the retry subject",
        unit="s",
        minimum=0.1,
    )
    consumer_forget_hours: float = option(
        48.0, help="a consumer silent for this long is forgotten", unit="h", minimum=0.01
    )
    stop_seconds: float = option(10.0, help="how long a stop waits for requests under way", unit="s", minimum=0)
    read_only: bool = option(False, help="start refusing sends")
    log_level: str = option("info", help="what is logged", choices=("debug", "info", "warning", "error"))
    log_format: str = option("plain", help="how it is logged", choices=("plain", "json"))
