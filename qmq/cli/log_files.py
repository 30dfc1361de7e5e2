"""`qmq log`: what is in the files of a node's log."""

import argparse
from typing import Any


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    log = commands.add_parser("log", help="inspect the files of a log")
    kinds = log.add_subparsers(dest="kind", required=True)
    command = kinds.add_parser("inspect", help="show segments, commits, records, epochs and corruption")
    command.add_argument("folder", help="the `log` folder inside the data folder of a node")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_inspect)


def _inspect(arguments: argparse.Namespace) -> int:
    # The only command that needs what nodes stand on.
    from qmq_node.inspect_log import inspect

    return inspect(arguments.folder, as_json=arguments.json)
