"""`python -m broker_node`: options -> Broker -> run."""

import asyncio
import os
import sys

from broker_node.broker import Broker
from broker_node.options import BrokerOptions
from qmq.daemon.allocator import keep_freed_memory
from qmq.daemon.options import exit_wrong, parse_options
from qmq.daemon.runner import FAILED, run_daemon, set_up_logging
from qmq.errors import SettingError

PROG = "broker_node"


def main(argv: list[str] | None = None) -> int:
    """Run a broker node until it is told to stop; the exit code."""
    try:
        options = parse_options(
            BrokerOptions,
            sys.argv[1:] if argv is None else argv,
            os.environ,
            prog=PROG,
            process="broker",
            description="A broker node: stores real-time messages and hands them to consumers.",
        )
    except SettingError as error:
        exit_wrong(PROG, error)
    set_up_logging(options.log_level, options.log_format)
    keep_freed_memory()

    async def run(stop: asyncio.Event) -> None:
        broker = Broker(options)
        try:
            await broker.start()
            await broker.serve(stop)
        finally:
            await broker.close()

    try:
        return run_daemon(run)
    except SettingError as error:
        exit_wrong(PROG, error)
    except OSError as error:
        sys.stderr.write(f"{PROG}: {error}\n")
        return FAILED


if __name__ == "__main__":
    sys.exit(main())
