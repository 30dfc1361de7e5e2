"""The `qmq` command. Exit codes: 0 done, 1 failed, 2 wrong use, 3 timed out with fewer messages than requested."""

import argparse
import os
from typing import NoReturn

from qmq import __version__
from qmq.cli import bench, broker_groups, delayed, groups, idempotent, log_files, messages, outbox, provisioning, status
from qmq.cli.output import discard_rest, warn
from qmq.errors import QmqError, SettingError
from qmq.net.discovery import DEFAULT_META_URL, meta_urls

FAILED, WRONG_USE = 1, 2


class _Parser(argparse.ArgumentParser):
    """Reports wrong usage in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USE, f"{self.prog}: {message}; see {self.prog} --help\n")


def command_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="qmq", description="Send, receive and inspect messages of a PyQMQ system.")
    parser.add_argument("--version", action="version", version=f"qmq {__version__}")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--meta",
        default=os.environ.get("QMQ_META", DEFAULT_META_URL),
        help="address of the metaserver, host:port or URL; several are separated by commas; default: QMQ_META, or localhost:8080",
    )
    shared.add_argument("--json", action="store_true", help="print JSON")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)
    for module in (
        status,
        groups,
        broker_groups,
        messages,
        delayed,
        outbox,
        idempotent,
        provisioning,
        bench,
        log_files,
    ):
        module.add_commands(commands, shared)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one command; its exit code."""
    arguments = command_parser().parse_args(argv)
    try:
        if "meta" in arguments:
            arguments.meta = ",".join(meta_urls(arguments.meta))
        return int(arguments.run(arguments))
    except QmqError as error:
        warn(str(error))
        return WRONG_USE if isinstance(error, SettingError) else FAILED
    except KeyboardInterrupt:
        return FAILED
    except BrokenPipeError:
        discard_rest()
        return FAILED
