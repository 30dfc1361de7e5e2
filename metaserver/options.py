"""The metaserver's settings: flags, environment (QMQ_META_...), file."""

from dataclasses import dataclass

from qmq.options import METRICS_TOKEN_HELP, NODE_TOKEN_FILE_HELP, NODE_TOKEN_HELP, option


@dataclass(frozen=True)
class MetaOptions:
    """Every setting of a metaserver."""

    host: str = option("127.0.0.1", help="address to listen on")
    advertise_host: str = option("", help="host name or address that clients connect to; default: host")
    http_port: int = option(8080, help="port of the address page and JSON pages", minimum=0, maximum=65535)
    tcp_port: int = option(20880, help="port for clients and nodes", minimum=0, maximum=65535)
    admin_names: str = option(
        "",
        help="additional host names, separated by commas, under which pages other than the address page are requested",
    )
    node_token: str = option("", help=NODE_TOKEN_HELP, variable="QMQ_NODE_TOKEN", is_secret=True)
    node_token_file: str = option("", help=NODE_TOKEN_FILE_HELP, variable="QMQ_NODE_TOKEN_FILE")
    metrics_token: str = option("", help=METRICS_TOKEN_HELP, variable="QMQ_METRICS_TOKEN", is_secret=True)
    official_nodes: str = option(
        "",
        help="nodes of the official server (Java) that may register, without approval: GROUP@HOST:PORT, separated by commas;"
        " without a node secret also GROUP, for any node of that broker group",
    )
    data_dir: str = option("var/meta", help="folder for the route snapshot and the default database")
    database_url: str = option("", help="postgres://, mysql:// or sqlite:// URL; default: SQLite in the data folder")
    subject_groups_min: int = option(2, help="number of broker groups of a new subject", minimum=1, maximum=100)
    new_groups: str = option(
        "approval",
        help="whether a new broker group requires an operator's approval or goes into service immediately",
        choices=("approval", "allow"),
    )
    read_token: str = option("", help="token required to list all nodes (used by Spark); empty: no token is required")
    connections_max: int = option(15_000, help="maximum number of connections of clients and nodes", minimum=1)
    stop_seconds: float = option(3.0, help="how long a shutdown waits for running requests", unit="s", minimum=0)
    log_level: str = option("info", help="log level", choices=("debug", "info", "warning", "error"))
    log_format: str = option("plain", help="log format", choices=("plain", "json"))
