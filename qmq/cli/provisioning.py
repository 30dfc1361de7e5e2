"""`qmq apply`: send a document of teams, subjects and consumer groups to the console."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from qmq.cli import console
from qmq.cli.output import say, say_json, warn
from qmq.errors import SettingError
from qmq.words import counted

DOCUMENT_BYTES_MAX = 1 << 20
"""As the console takes it."""
_SIGNS = {"create": "+", "update": "~", "archive": "-", "restore": "+", "keep": "="}


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "apply",
        help="create or update subjects, consumer groups and teams from a file",
        description="Creates or updates teams, subjects and consumer groups as declared in a YAML or JSON file, completely or not"
        " at all: if anything is wrong, all problems are named, and nothing is changed. Objects that the file omits stay unchanged;"
        " applying it again changes nothing. Tokens can't change accounts: a file with teams is applied by an administrator on the"
        " Provisioning page of the console.",
    )
    parser.add_argument("-f", "--file", required=True, help="file to apply; - for standard input")
    parser.add_argument("--dry-run", action="store_true", help="show the changes without applying them")
    console.add_arguments(parser)
    parser.set_defaults(run=apply)


def apply(arguments: argparse.Namespace) -> int:
    """Preview or apply; the exit code."""
    token = console.token("operate")
    path = f"apply/{'?dry_run=true' if arguments.dry_run else ''}"
    document = _document(arguments.file)
    try:
        # JSON is YAML: one way of reading for both.
        preview = console.call(arguments.console, token, "PUT", path, document, content_type="application/yaml")
    except console.Rejected as rejected:
        if len(rejected.fields) < 2:
            raise
        for place, problem in rejected.fields.items():
            warn(f"{place}: {problem}")
        warn("nothing was changed")
        return 1
    if arguments.json:
        say_json(preview, indent=2)
        return 0
    for step in preview["steps"]:
        say(f"{_SIGNS[step['action']]} {step['kind'].replace('_', ' ')} {step['target']}{_differences(step)}")
    for name in preview["drift"]:
        say(f"? consumer group {name} is not in the document")
    count = sum(step["action"] != "keep" for step in preview["steps"])
    done = "to apply" if preview["dry_run"] else "applied"
    same = counted(len(preview["steps"]) - count, "object")
    say(f"{counted(count, 'change')} {done}, {same} unchanged")
    return 0


def _differences(step: dict[str, Any]) -> str:
    before, after = step["before"] or {}, step["after"] or {}
    parts = []
    for key, value in after.items() if step["action"] != "keep" else ():
        if step["before"] is None and value:
            parts.append(f"{key} {json.dumps(value)}")
        elif step["before"] is not None and before.get(key) != value:
            parts.append(f"{key} {json.dumps(before.get(key))} -> {json.dumps(value)}")
    return f": {', '.join(parts)}" if parts else ""


def _document(path: str) -> bytes:
    try:
        data = sys.stdin.buffer.read(DOCUMENT_BYTES_MAX + 1) if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise SettingError(f"{path}: {error.strerror}") from error
    if len(data) > DOCUMENT_BYTES_MAX:
        raise SettingError(f"{path} is larger than {DOCUMENT_BYTES_MAX} bytes; split it")
    return data
