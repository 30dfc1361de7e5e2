"""`python -m broker_node`: options -> Broker -> run."""

import sys

from broker_node.broker import Broker
from broker_node.options import BrokerOptions
from qmq_node.daemon.main import run_daemon


def main(argv: list[str] | None = None) -> int:
    """Run a broker node until a signal stops it; the exit code."""
    return run_daemon(
        Broker,
        BrokerOptions,
        argv,
        prog="broker_node",
        process="broker",
        description="A broker node: stores messages and delivers them to consumers.",
    )


if __name__ == "__main__":
    sys.exit(main())
