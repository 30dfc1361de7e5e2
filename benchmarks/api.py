"""`python -m benchmarks.api`: how long the pages of the API take with 1,000 subjects and 5,000 consumer groups; a table.

A real uvicorn over SQLite in a folder of its own, one request at a time over one connection. Lists are found by looking. Pages
that ask nodes are left out: the nodes' answers are measured elsewhere. Rate limits are off: there is no Redis.
"""

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from console.http.protocol import UVICORN_OPTIONS
from tests.support.servers.ports import free_port
from tests.support.servers.processes import PROJECT, Process

ASKING_NODES = (
    "messages",
    "message-search",
    "dead-letters",
    "dead-letter-counts",
    "delayed-messages",
    "overview",
    "lag",
)
LIMITS = (50, 500)
EXTRA = (
    ("subjects, search", "subjects/?search=t09"),
    ("subjects by owner", "subjects/?ordering=owner"),
    ("subjects by consumer groups", "subjects/?ordering=-consumer_groups"),
    ("subjects, newest change first", "subjects/?ordering=-updated_at"),
    ("consumer groups of one subject", "consumer-groups/?subject=subject0500"),
    ("consumer groups, search", "consumer-groups/?search=OUP4"),
    ("consumer groups, newest first", "consumer-groups/?ordering=-first_seen_at"),
    ("consumer groups that are paused", "consumer-groups/?has_pauses=true"),
    ("consumer groups by owner", "consumer-groups/?ordering=owner"),
    ("jump, beginning", "jump/?q=subject05"),
    ("jump, inside", "jump/?q=05"),
    ("jump, all", "jump/?q=group"),
    ("audit, search", "audit/?search=subject09"),
    ("a subject", "subjects/subject0500/"),
    ("a broker group", "broker-groups/g01/"),
)
TARGET_MS = 200.0

_FILL = """
import django, json, sys
django.setup()
from datetime import timedelta
from django.core.management import call_command
from django.urls import get_resolver
from django.utils import timezone
call_command("migrate", verbosity=0)
from console.accounts import services, tokens
from console.accounts.models import ApiToken, User
from console.accounts.roles import Scope
from rest_framework.generics import GenericAPIView
from tests.support.console.large import fill
services.ensure_first_admin()
admin = User.objects.get(username="admin")
token, prefix, digest = tokens.new_token()
ApiToken.objects.create(
    name="bench", owner=admin, prefix=prefix, digest=digest, scopes=[scope.value for scope in Scope],
    expires_at=timezone.now() + timedelta(days=1),
)
fill(admin, int(sys.argv[1]))
lists = []
def look(patterns, prefix=""):
    for item in patterns:
        text = prefix + str(item.pattern)
        if hasattr(item, "url_patterns"):
            look(item.url_patterns, text)
        elif "<" not in text and "GET" in getattr(getattr(item.callback, "cls", None), "rights", {}):
            lists.append((item.name, text))
look(get_resolver("api.urls").url_patterns)
print(json.dumps({"token": token, "lists": lists}))
"""


def measure(connection: http.client.HTTPConnection, token: str, path: str, times: int) -> tuple[int, list[float]]:
    """(status, milliseconds of each request, sorted)."""
    found: list[float] = []
    status = 0
    for _ in range(times + 2):
        began = time.perf_counter()
        connection.request("GET", f"/api/v1/{path}", headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        answer.read()
        found.append((time.perf_counter() - began) * 1000)
        status = answer.status
    return status, sorted(found[2:])


def row(name: str, found: list[float]) -> str:
    """A table row."""
    p95 = found[min(len(found) - 1, int(len(found) * 0.95))]
    return f"| {name} | {statistics.median(found):.0f} | {p95:.0f} | {'yes' if p95 < TARGET_MS else 'no'} |"


def run(folder: Path, times: int, subjects: int, only: str) -> None:
    """Fill a database, serve it, measure, print."""
    port = free_port()
    environment = {
        "QMQ_DATA_DIR": str(folder),
        "QMQ_REDIS_URL": "redis://127.0.0.1:1/0",
        "QMQ_META": "http://127.0.0.1:1/meta/address",
        "DJANGO_SETTINGS_MODULE": "console.settings",
        "PYTHONPATH": str(PROJECT),
    }
    (folder / "meta").mkdir()
    made = subprocess.run(
        [sys.executable, "-c", _FILL, str(subjects)], cwd=PROJECT, env={**os.environ, **environment}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    if made.returncode != 0:
        raise SystemExit(made.stderr)
    known: dict[str, Any] = json.loads(made.stdout.strip().splitlines()[-1])
    command = [sys.executable, "-m", "uvicorn", "console.asgi:application", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--log-level", "warning", *UVICORN_OPTIONS]
    server = Process("console", command, folder, f"http://127.0.0.1:{port}/healthz", environment)
    try:
        server.start()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        print("| page | p50 ms | p95 ms | below 200 ms |\n|---|---|---|---|")
        for name, path in sorted(known["lists"]):
            if name in ASKING_NODES or not name.startswith(only):
                continue
            for limit in LIMITS:
                status, found = measure(connection, known["token"], f"{path}?limit={limit}", times)
                if status == 200:
                    print(row(f"{name}, {limit} rows", found), flush=True)
        for name, path in EXTRA:
            if not name.startswith(only):
                continue
            status, found = measure(connection, known["token"], path, times)
            print(row(name, found) if status == 200 else f"| {name} | {status} | | no |", flush=True)
    finally:
        server.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=40, help="requests of each page")
    parser.add_argument("--subjects", type=int, default=1_000, help="each with five consumer groups")
    parser.add_argument("--only", default="", help="pages whose name begins with this")
    with tempfile.TemporaryDirectory() as place:
        given = parser.parse_args()
        run(Path(place), given.times, given.subjects, given.only)
