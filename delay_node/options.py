"""The delay node's settings: flags, environment (QMQ_DELAY_...), file."""

from dataclasses import dataclass

from qmq.options import option, size_option
from qmq_node.daemon.options import MIB, NodeOptions


@dataclass(frozen=True)
class DelayOptions(NodeOptions):
    broker_group: str = option("d1", help="delay group of this node", variable="QMQ_DELAY_GROUP")
    data_dir: str = option("var/delay", help="data folder of this node")
    port: int = option(20885, help="TCP port for clients; 0: any free port", minimum=0, maximum=65535)
    admin_port: int = option(20985, help="port of the admin HTTP server; 0: any free port", minimum=0, maximum=65535)
    segment_bytes: int = size_option(
        256 * MIB, "maximum size of a segment of the message log; a new log starts with smaller ones", minimum=MIB
    )
    checkpoint_bytes: int = size_option(
        128 * MIB,
        "amount of log between writes of the schedule files, and so the maximum that a restart replays",
        minimum=MIB,
    )
    delay_max_days: float = option(
        730.0, help="maximum delay of a message; later due times are rejected", unit="days", minimum=0.001
    )
    load_ahead_minutes: float = option(
        30.0, help="time before an hour starts at which it is loaded into the timer wheel", unit="min", minimum=0.01
    )
    keep_hours: float = option(
        24.0,
        help="how long the files of an hour are kept for lookups after all its messages were delivered",
        unit="h",
        minimum=0,
    )
    send_seconds: float = option(5.0, help="time limit for a broker's response to a batch", unit="s", minimum=0.1)
