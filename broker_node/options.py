"""The broker's settings: flags, environment (QMQ_BROKER_...), file."""

from dataclasses import dataclass

from qmq.options import option, size_option
from qmq_node.daemon.options import NodeOptions


@dataclass(frozen=True)
class BrokerOptions(NodeOptions):
    """Every setting of a broker node."""

    broker_group: str = option("g1", help="broker group of this node", variable="QMQ_BROKER_GROUP")
    data_dir: str = option("var/broker", help="data folder of this node")
    port: int = option(20881, help="TCP port for clients; 0: any free port", minimum=0, maximum=65535)
    admin_port: int = option(20981, help="port of the admin HTTP server; 0: any free port", minimum=0, maximum=65535)
    retention_hours: float = option(72.0, help="retention of messages", unit="h", minimum=0.01)
    retention_bytes: int = size_option(0, "maximum size of the log; 0: no limit", minimum=0)
    subjects_max: int = option(
        200_000, help="maximum number of subjects of this node, plus as many retry and dead-letter subjects", minimum=1
    )
    groups_per_subject_max: int = option(10_000, help="maximum number of consumer groups of a subject", minimum=1)
    consumers_per_group_max: int = option(10_000, help="maximum number of consumers of a group", minimum=1)
    consumer_in_flight_max: int = option(
        100_000,
        help="maximum number of unacknowledged messages of a consumer on a subject; at the limit a pull returns no new messages",
        minimum=1,
    )
    retry_delay_seconds: float = option(5.0, help="delay before a retried message is delivered", unit="s", minimum=0)
    consumer_lease_seconds: float = option(
        180.0,
        help="time without requests after which a consumer's unacknowledged messages are retried",
        unit="s",
        minimum=0.1,
    )
    consumer_forget_hours: float = option(
        48.0, help="time without requests after which a consumer is removed", unit="h", minimum=0.01
    )
