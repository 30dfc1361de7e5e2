"""`qmq apply`: send a document of teams, subjects and consumer groups to the console."""

import argparse
import json
import os
import sys
import urllib.error
import urllib.request
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from qmq.cli import limits
from qmq.errors import ConnectionLost, QmqError, SettingError
from qmq.words import counted

DEFAULT_CONSOLE_URL = "http://127.0.0.1:8000"
DOCUMENT_BYTES_MAX = 1 << 20
"""As the console takes it."""
TIMEOUT_SECONDS = 60.0
"""For the console's answer, once it is connected."""
_SIGNS = {"create": "+", "update": "~", "archive": "-", "restore": "+", "keep": "="}


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "apply",
        help="create or update subjects, consumer groups and teams from a file",
        description="Creates or updates teams, subjects and consumer groups as declared in a YAML or JSON file, completely or not"
        " at all. Objects that the file omits stay unchanged; applying it again changes nothing.",
    )
    parser.add_argument("-f", "--file", required=True, help="file to apply; - for standard input")
    parser.add_argument("--dry-run", action="store_true", help="show the changes without applying them")
    parser.add_argument(
        "--console",
        default=os.environ.get("QMQ_CONSOLE", DEFAULT_CONSOLE_URL),
        help="URL of the console; default: QMQ_CONSOLE, or http://localhost:8000",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=apply)


def apply(arguments: argparse.Namespace) -> int:
    """Plan or apply; the exit code."""
    token = os.environ.get("QMQ_TOKEN", "")
    if not token:
        raise SettingError(
            "set QMQ_TOKEN to an API token with scope operate, or admin for teams; the console creates tokens"
        )
    plan = _put(arguments.console, token, _document(arguments.file), dry_run=arguments.dry_run)
    if arguments.json:
        print(json.dumps(plan, indent=2))
        return 0
    for step in plan["steps"]:
        print(f"{_SIGNS[step['action']]} {step['kind'].replace('_', ' ')} {step['target']}{_differences(step)}")
    for name in plan["drift"]:
        print(f"? consumer group {name} is not in the document")
    count = sum(step["action"] != "keep" for step in plan["steps"])
    done = "to apply" if plan["dry_run"] else "applied"
    same = counted(len(plan["steps"]) - count, "object")
    print(f"{counted(count, 'change')} {done}, {same} unchanged")
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


def _put(console: str, token: str, document: bytes, *, dry_run: bool) -> dict[str, Any]:
    parts = urlsplit(console if "://" in console else f"http://{console}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingError(f"{console!r} is not a console URL such as {DEFAULT_CONSOLE_URL}")
    url = f"{parts.scheme}://{parts.netloc}/api/v1/apply/{'?dry_run=true' if dry_run else ''}"
    # JSON is YAML: one way of reading for both.
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/yaml"}
    request = urllib.request.Request(url, data=document, method="PUT", headers=headers)
    try:
        with urllib.request.build_opener(_Patient).open(request, timeout=limits.REACH_SECONDS) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        raise _refused(url, error) from error
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise ConnectionLost(
            f"{url} can't be reached: {reason}. Check that the console is running and that --console or QMQ_CONSOLE is its address."
        ) from error


class _Patient(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Connects within the timeout of the request, then waits TIMEOUT_SECONDS for the answer."""

    def do_open(self, http_class: Any, req: urllib.request.Request, **http_conn_args: Any) -> Any:
        class Connection(http_class):  # type: ignore[misc]
            def connect(self) -> None:
                super().connect()
                self.sock.settimeout(TIMEOUT_SECONDS)

        return super().do_open(Connection, req, **http_conn_args)


def _refused(url: str, error: urllib.error.HTTPError) -> QmqError:
    try:
        problem = json.load(error)
        return QmqError(str(problem["detail"]), code=str(problem["code"]))
    except (ValueError, KeyError, TypeError, OSError):
        advice = ""
        if error.code == HTTPStatus.NOT_FOUND:
            advice = ": no PyQMQ console at this address (--console or QMQ_CONSOLE); a metaserver can't apply documents"
        return QmqError(f"{url} answered {error.code} {error.reason}{advice}")
