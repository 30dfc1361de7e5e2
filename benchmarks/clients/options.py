"""Command line of `python -m benchmarks.clients`."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.clients import rows
from benchmarks.clients.rows import Library, Row

ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure.

    Args:
        messages: per measurement; None: what takes three to six seconds.
        json: file for all timings.
    """

    rounds: int
    messages: int | None
    chosen: list[tuple[Library, list[Row]]]
    json: Path | None


def parse(arguments: Sequence[str], description: str | None = None) -> Options:
    """Return the options of a command line; exit with a message if it is invalid."""
    parser = argparse.ArgumentParser(prog="benchmarks.clients", description=description)
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"default: {ROUNDS}")
    parser.add_argument("--messages", type=int, metavar="N", help="per measurement; default: for 3 to 6 seconds each")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="LIBRARY or LIBRARY/ROW")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all timings to this file")
    parsed = parser.parse_args(arguments)
    for name in ("rounds", "messages"):
        if getattr(parsed, name) is not None and getattr(parsed, name) < 1:
            parser.error(f"--{name} {getattr(parsed, name)}: must be at least 1")
    try:
        chosen = rows.select(parsed.only)
    except ValueError as error:
        parser.error(f"--only: {error}")
    return Options(parsed.rounds, parsed.messages, chosen, parsed.json)
