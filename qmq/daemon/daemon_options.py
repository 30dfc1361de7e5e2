"""Settings that every daemon has."""

from dataclasses import dataclass

from qmq.options import METRICS_TOKEN_HELP, NODE_TOKEN_FILE_HELP, NODE_TOKEN_HELP, option

READ_TOKEN_HELP = "token required for bulk reads (Spark); empty: no token is required"


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
    read_token: str = option("", help=READ_TOKEN_HELP)
    connections_max: int = option(10_000, help="maximum number of client connections", minimum=1)
    stop_seconds: float = option(10.0, help="how long a shutdown waits for running requests", unit="s", minimum=0)
    log_level: str = option("info", help="log level", choices=("debug", "info", "warning", "error"))
    log_format: str = option("plain", help="log format", choices=("plain", "json"))
