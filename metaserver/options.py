"""The metaserver's settings: flags, environment (QMQ_META_...), file."""

from dataclasses import dataclass

from qmq.options import option
from qmq.protocol.group_memberships import MEMBERS_MAX
from qmq_node.daemon.options import DaemonOptions


@dataclass(frozen=True)
class MetaOptions(DaemonOptions):
    data_dir: str = option("var/meta", help="folder for the route file and the default database")
    admin_names: str = option(
        "",
        help="additional host names, separated by commas, under which pages other than the address page are requested",
    )
    read_token: str = option("", help="token required to list all nodes (used by Spark); empty: no token is required")
    connections_max: int = option(15_000, help="maximum number of connections of clients and nodes", minimum=1)
    stop_seconds: float = option(
        3.0, help="how long a shutdown waits for the database to store what is pending", unit="s", minimum=0
    )
    http_port: int = option(8080, help="port of the address page and JSON pages", minimum=0, maximum=65535)
    tcp_port: int = option(20880, help="port for clients and nodes", minimum=0, maximum=65535)
    official_nodes: str = option(
        "",
        help="nodes of the official server (Java) that may register, without approval: GROUP@HOST:PORT, separated by commas;"
        " without a node secret also GROUP, for any node of that broker group",
    )
    database_url: str = option("", help="postgres://, mysql:// or sqlite:// URL; default: SQLite in the data folder")
    subject_groups_min: int = option(2, help="number of broker groups of a new subject", minimum=1, maximum=100)
    copies: int = option(
        2,
        help="number of members that a new broker or delay group should have; further nodes that start with an empty folder"
        " become members up to this number",
        minimum=1,
        maximum=MEMBERS_MAX,
    )
    new_groups: str = option(
        "approval",
        help="whether a new broker group requires an operator's approval or goes into service immediately",
        choices=("approval", "allow"),
    )
