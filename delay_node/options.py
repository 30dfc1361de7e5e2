"""The delay node's settings: flags, environment (QMQ_DELAY_...), file."""

from dataclasses import dataclass

from qmq.daemon.node_options import MIB, NodeOptions
from qmq.options import option


@dataclass(frozen=True)
class DelayOptions(NodeOptions):
    """Every setting of a delay node."""

    group: str = option("d1", help="the delay group this node belongs to")
    data_dir: str = option("var/delay", help="folder for everything this node keeps")
    port: int = option(20885, help="TCP port for clients; 0 takes a free one", minimum=0, maximum=65535)
    admin_port: int = option(20985, help="port of the admin HTTP server; 0 takes a free one", minimum=0, maximum=65535)
    segment_bytes: int = option(
        256 * MIB,
        help="largest size of a segment of the message log; a new log begins with smaller ones",
        unit="bytes",
        minimum=1 * MIB,
    )
    checkpoint_bytes: int = option(
        128 * MIB,
        help="the schedule's files are written after this much log, so that a restart replays no more",
        unit="bytes",
        minimum=MIB,
    )
    delay_max_days: float = option(
        730.0, help="how far ahead a message may be due; further ones are refused", unit="days", minimum=0.001
    )
    load_ahead_minutes: float = option(
        30.0, help="an hour is read into the timer wheel this long before it begins", unit="min", minimum=0.01
    )
    keep_hours: float = option(
        24.0,
        help="how long an hour's files are kept after it has passed and all of it was delivered, for look-ups",
        unit="h",
        minimum=0,
    )
    send_seconds: float = option(5.0, help="how long a broker may take to answer a batch", unit="s", minimum=0.1)
