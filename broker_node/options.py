"""The broker's settings: flags, environment (QMQ_BROKER_...), file."""

from dataclasses import dataclass

from qmq.daemon.node_options import NodeOptions
from qmq.options import option


@dataclass(frozen=True)
class BrokerOptions(NodeOptions):
    """Every setting of a broker node."""

    group: str = option("g1", help="the broker group this node belongs to")
    data_dir: str = option("var/broker", help="folder for everything this node keeps")
    port: int = option(20881, help="TCP port for clients; 0 takes a free one", minimum=0, maximum=65535)
    admin_port: int = option(20981, help="port of the admin HTTP server; 0 takes a free one", minimum=0, maximum=65535)
    retention_hours: float = option(72.0, help="how long messages are kept", unit="h", minimum=0.01)
    retention_bytes: int = option(0, help="most bytes of log kept; 0: no such limit", unit="bytes", minimum=0)
    subjects_max: int = option(
        200_000, help="most subjects this node holds, beside as many retry and dead-letter subjects", minimum=1
    )
    groups_per_subject_max: int = option(10_000, help="most consumer groups of a subject", minimum=1)
    consumers_per_group_max: int = option(10_000, help="most consumers of a group", minimum=1)
    consumer_in_flight_max: int = option(
        100_000, help="most unacked messages of a consumer on a subject; above it a pull gets no new ones", minimum=1
    )
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
