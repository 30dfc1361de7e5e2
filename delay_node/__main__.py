"""`python -m delay_node`: options -> DelayNode -> run."""

import sys

from delay_node.delay_node import DelayNode
from delay_node.options import DelayOptions
from qmq_node.daemon.main import run_daemon


def main(argv: list[str] | None = None) -> int:
    """Run a delay node until a signal stops it; the exit code."""
    return run_daemon(
        DelayNode,
        DelayOptions,
        argv,
        prog="delay_node",
        process="delay",
        description="A delay node: stores delayed messages and delivers them to brokers when they are due.",
    )


if __name__ == "__main__":
    sys.exit(main())
