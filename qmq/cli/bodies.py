"""The bodies of messages that `qmq produce` sends: properties, a number of bytes, or the lines of a file."""

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator
from typing import BinaryIO

from qmq.cli.values import pairs_of
from qmq.client.bodies import KEY_DATA, Body
from qmq.errors import SettingError
from qmq.protocol.messages import set_large_string
from qmq.protocol.names import VALUE_BYTES_MAX

_Values = dict[str, str | int | float | bool]


@contextlib.contextmanager
def bodies(arguments: argparse.Namespace) -> Iterator[Iterator[Body]]:
    """Yield the bodies that the arguments describe. Raises SettingError for an invalid property or file."""
    fixed: _Values = dict(pairs_of(arguments.properties, "-p"))
    if arguments.size is not None:
        fixed[KEY_DATA] = "x" * arguments.size
    if arguments.file is None:
        body = _in_parts(fixed)
        yield (body for _ in range(arguments.count))
        return
    if arguments.file == "-":
        yield _lines(sys.stdin.buffer, fixed)
        return
    try:
        file = open(arguments.file, "rb")  # noqa: SIM115
    except OSError as error:
        raise SettingError(f"--file {arguments.file}: {error.strerror}") from error
    with file:
        yield _lines(file, fixed)


def _lines(file: BinaryIO, fixed: _Values) -> Iterator[Body]:
    for line in file:
        yield _in_parts(fixed | _line(line.decode("utf-8", "replace").rstrip("\r\n")))


def _line(text: str) -> _Values:
    if text.startswith("{"):
        # What is no JSON, or nested more deeply than Python can read, is a text.
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(text)
            return {k: v if isinstance(v, str | int | float | bool) else json.dumps(v) for k, v in found.items()}
    return {KEY_DATA: text}


def _in_parts(values: _Values) -> _Values:
    """Values that are too long for one property in parts, as clients store long texts."""
    found: _Values = {}
    for key, value in values.items():
        if isinstance(value, str) and len(value.encode("utf-8", "surrogatepass")) > VALUE_BYTES_MAX:
            parts: dict[str, str] = {}
            set_large_string(parts, key, value)
            found |= parts
        else:
            found[key] = value
    return found
