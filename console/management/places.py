"""Flags that commands share: which system on this machine is meant."""

import os
import sys
from argparse import ArgumentTypeError

from django.conf import settings
from django.core.management.base import CommandParser

PORTS_NEEDED = 9


def add_places(parser: CommandParser) -> None:
    """Add `--data-dir` and `--port-base`."""
    parser.add_argument("--data-dir", default=os.environ.get("QMQ_DATA_DIR", "var"), help="where everything is kept")
    parser.add_argument("--port-base", type=_port_base, help="console here, metaserver on the next two, then brokers")


def use_data_dir(given: str) -> str:
    """The folder's whole path. Where settings were read for another one, the process starts again with this one."""
    data_dir = os.path.abspath(given)
    if os.path.abspath(settings.DATA_DIR) != data_dir:
        os.environ["QMQ_DATA_DIR"] = data_dir
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    return data_dir


def _port_base(text: str) -> int:
    value = int(text) if text.isdigit() else 0
    if not 1024 <= value <= 65535 - PORTS_NEEDED:
        raise ArgumentTypeError(f"{text!r}: a port from 1024 to {65535 - PORTS_NEEDED} is needed")
    return value
