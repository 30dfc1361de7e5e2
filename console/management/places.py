"""Flags that commands share: which system on this machine is meant."""

import os
from argparse import ArgumentTypeError

from django.conf import settings
from django.core.management.base import CommandParser

PORTS_NEEDED = 23
"""Of `up` with three members in each broker group, behind the first port."""


def add_data_dir(parser: CommandParser) -> None:
    """List `--data-dir` in a command's help; `console.manage` takes its value before the settings are read."""
    parser.add_argument(
        "--data-dir", default=str(settings.DATA_DIR), help="the folder with all data; default: QMQ_DATA_DIR, or var"
    )


def add_places(parser: CommandParser) -> None:
    """Add `--data-dir` and `--port-base`."""
    add_data_dir(parser)
    parser.add_argument(
        "--port-base", type=_port_base, help="first port: console = P, metaserver = P+1 and P+2, nodes after that"
    )


def no_database(error: Exception) -> str:
    """What an operator reads when the database refuses: where it was looked for, and how to name another."""
    reason = str(error).strip().replace("\n", " ")
    if os.environ.get("QMQ_DATABASE_URL"):
        return (
            f"the database of QMQ_DATABASE_URL can't be used: {reason}. Check the URL and that the server is running."
            " If the database contains no PyQMQ tables, start the system with `make up` first."
        )
    path = settings.DATABASES["default"]["NAME"]
    what = "contains no PyQMQ tables" if os.path.isfile(path) else "does not exist"
    if os.path.isfile(path) and "no such table" not in reason:
        what = f"can't be used: {reason}"
    return (
        f"the database {path} {what}. Start the system with `make up` first, or name the folder of a running one with"
        " --data-dir (the one given to `make up`) or its database with QMQ_DATABASE_URL."
    )


def _port_base(text: str) -> int:
    value = int(text) if text.isdigit() else 0
    if not 1024 <= value <= 65535 - PORTS_NEEDED:
        raise ArgumentTypeError(f"{text!r}: must be a port from 1024 to {65535 - PORTS_NEEDED}")
    return value
