"""Schemathesis in all its phases against a whole system with real nodes: no response is a 500, none has a status, a media type or
a shape that api/openapi.yaml lacks, and no caller's request that the file excludes is accepted.

All checks of Schemathesis are on, but:

- positive_data_acceptance: services refuse values that a schema cannot describe, such as the name of a team that does not exist;
- not_a_server_error lets 503 pass: a broker group that was announced has no node to ask yet;
- an empty value of the query, and any but the last of a repeated one, may be illegal (`filter_failure` of schema_hooks.py).
"""

import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from api.schema import COMMON_STATUSES
from qmq.sync import Consumer, Producer
from tests.faults.attack.children import children
from tests.served.api.nodes.cases import CASES
from tests.support.console.password import PASSWORD
from tests.support.generated.openapi import openapi_document
from tests.support.promises import PromiseBroken, judging
from tests.support.servers.processes import PROJECT
from tests.support.servers.up import Up
from tests.support.waiting import ASK_SECONDS, eventually
from tests.support.whole import in_whole_attack_runs

EXAMPLES_DEFAULT = 5
EXAMPLES = int(os.environ.get("QMQ_SCHEMA_EXAMPLES", EXAMPLES_DEFAULT))
"""Requests of each operation and caller in the fuzzing phase; ten times as many scenarios in the stateful phase. With more than
by default, each caller sends illegal requests in the coverage phase; else only the administrator, who has all rights."""
ARGUMENTS = os.environ.get("QMQ_SCHEMA_ARGS", "").split()
"""More options for `schemathesis run`, such as --report-html-path=report.html."""
SEED = 1
CALLERS = {"anonymous": 0, "viewer": 30, "operator": 50, "administrator": 85}
"""The callers, and how many of the operations accept at least one of their requests: otherwise the run has tested little."""
PHASES = ("examples", "coverage", "fuzzing", "stateful")
TOKENS = 30
"""Of a caller. Each has rate limits of its own."""
ADMINISTRATORS = 20
TEAM, GROUP = "shop", "billing"
SUBJECTS = ("orders", "paid", "archived")
API = "/api/v1"
PLAN = "QMQ_SCHEMA_PLAN"
"""As in tests/faults/attack/schema_hooks.py, which only the process of Schemathesis imports: it registers its hooks."""
_addresses = itertools.count(1)


@dataclass
class Page:
    """A browser that a user is signed in with."""

    up: Up
    username: str
    password: str
    session: requests.Session = field(default_factory=requests.Session)

    def __post_init__(self) -> None:
        self.url = f"http://127.0.0.1:{self.up.base}"
        # Of an address of its own: one address may sign in 30 times a minute.
        self.session.headers["X-Forwarded-For"] = f"10.1.0.{next(_addresses)}"
        self.session.get(f"{self.url}/_allauth/browser/v1/config", timeout=30)
        body = {"username": self.username, "password": self.password}
        self.ask("POST", "/_allauth/browser/v1/auth/login", body)

    @property
    def credential(self) -> dict[str, Any]:
        """What Schemathesis sends to be this user."""
        cookies = self.session.cookies.get_dict()
        return {"headers": {"X-CSRFToken": cookies["qmq_csrf"]}, "cookies": cookies}

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request that has to succeed; its body."""
        answer = self.session.request(
            method, self.url + path, json=body, timeout=30,
            headers={"X-CSRFToken": self.session.cookies.get("qmq_csrf") or ""},
        )  # fmt: skip
        assert answer.status_code < 400, (method, path, answer.status_code, answer.text)
        return answer.json()

    def token(self, *scopes: str) -> dict[str, Any]:
        """A token of this user as a credential."""
        made = self.ask("POST", f"{API}/tokens/", {"name": "tests", "scopes": scopes})
        return {"headers": {"Authorization": f"Bearer {made['token']}"}, "cookies": {}}


@dataclass
class World:
    """A system with something of each kind, and its callers."""

    up: Up
    credentials: dict[str, list[dict[str, Any]]]
    """By caller."""
    known: dict[tuple[str, str], list[Any]]
    """Values that exist, by the first word of a path ("": any other) and the name of a parameter in it."""
    dry_runs: dict[str, tuple[str, list[str] | None]]
    """As in tests/faults/attack/schema_hooks.py."""
    pids: set[int]
    """Of the processes."""


def furnish(up: Up) -> World:
    """Users, subjects, messages, a consumer group with dead letters, delayed messages, alerts."""
    assert up.process is not None
    first = Page(up, "admin", up.manage("reset_password", "admin").rpartition(" ")[2])
    first.ask("POST", f"{API}/teams/", {"name": TEAM})
    people = {f"admin{number}": "admin" for number in range(ADMINISTRATORS)} | {"olga": "operator", "vera": "viewer"}
    own = ["1"]
    for name, role in people.items():
        body = {"username": name, "role": role, "password": PASSWORD, "teams": [TEAM] if role == "operator" else []}
        own.append(first.ask("POST", f"{API}/users/", body)["id"])
    unused = first.ask("POST", f"{API}/users/", {"username": "unused", "role": "viewer"})
    unused_token = first.ask("POST", f"{API}/tokens/", {"name": "unused", "scopes": ["read"]})
    pages = {name: Page(up, name, PASSWORD) for name in people}
    _send(f"http://{up.meta}/meta/address")
    first.ask("PATCH", f"{API}/subjects/orders/", {"owner": TEAM})
    first.ask("POST", f"{API}/subjects/archived/archive/", {})
    channel = {"name": "post", "kind": "email", "addresses": ["alerts@example.invalid"]}
    first.ask("POST", f"{API}/alert-channels/", channel)
    rule = {"name": "behind", "kind": "lag", "threshold": 0, "severity": "warning", "channels": ["post"]}
    first.ask("POST", f"{API}/alert-rules/", rule)
    silence = {
        "rule": "none",
        "reason": "test",
        "ends_at": f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}",
    }
    first.ask("POST", f"{API}/silences/", silence)

    def rows(path: str) -> list[dict[str, Any]]:
        def look() -> Any:
            answer = first.session.get(f"{first.url}{API}{path}", timeout=30)
            return answer.json()["results"] if answer.status_code == 200 else None

        return eventually(look, what=f"{path} has rows", every_s=ASK_SECONDS)

    letters = rows(f"/dead-letters/orders/{GROUP}/")
    rows("/delayed-messages/")
    return World(
        up,
        credentials={
            "anonymous": [],
            "viewer": [pages["vera"].token("read") for _ in range(TOKENS)],
            "operator": [pages["olga"].token("operate") for _ in range(TOKENS)],
            "administrator": [page.credential for name, page in pages.items() if name.startswith("admin")],
        },
        known={
            ("", "subject"): list(SUBJECTS),
            ("", "group"): [GROUP],
            ("", "broker_group"): ["g1", "g2"],
            ("", "sequence"): [0, 1],
            ("dead-letters", "broker_group"): [letters[0]["broker_group"]],
            ("dead-letters", "sequence"): [int(letters[0]["sequence"])],
            ("teams", "team"): [TEAM],
            ("users", "user_id"): [int(unused["id"]), 1],
            ("tokens", "token_id"): [int(unused_token["id"])],
            ("nodes", "node_id"): ["g1-a", "g2-a", "d1-a"],
            ("broker-groups", "name"): ["g1", "d1"],
            ("jobs", "name"): ["alerts", "cleanups"],
            ("alert-rules", "rule"): [row["id"] for row in rows("/alert-rules/?search=behind")],
            ("alert-channels", "channel"): [row["id"] for row in rows("/alert-channels/")],
            ("alerts", "alert"): [row["id"] for row in rows("/alerts/")],
            ("silences", "silence"): [row["id"] for row in rows("/silences/")],
        },
        dry_runs={
            # What the run itself uses.
            f"PATCH {API}/users/{{user_id}}/": ("user_id", own),
            f"POST {API}/users/{{user_id}}/end-sessions/": ("user_id", own),
            f"DELETE {API}/me/sessions/": ("", None),
            f"DELETE {API}/me/sessions/{{session_id}}/": ("", None),
            # What nothing would be left of for other operations.
            f"DELETE {API}/subjects/{{subject}}/": ("subject", ["orders"]),
            f"DELETE {API}/consumer-groups/{{subject}}/{{group}}/": ("subject", ["orders"]),
            f"POST {API}/delayed-messages/bulk-cancel/": ("", None),
            f"POST {API}/delayed-messages/cancel/": ("", None),
        },
        pids={process.pid for process in children(up.process.pid)},
    )


def _send(meta: str) -> None:
    """Send messages of each subject, some of which become dead letters, and delayed ones."""
    with Producer(meta, app="tests") as producer:
        for subject in SUBJECTS:
            for number in range(5):
                producer.send(subject, {"order": str(number), "data": "x"}, tags=["card"])
        for _ in range(20):
            producer.send("orders", {"order": "later"}, delay=timedelta(days=1))
    for subject in SUBJECTS:
        with Consumer(meta, subject, GROUP, app="tests", start="earliest", attempts_max=0) as consumer:
            for delivery in consumer.pull(2, timeout=10):
                delivery.retry()


def with_examples(world: World) -> dict[str, Any]:
    """The committed OpenAPI file with examples: values that exist in this system, and valid bodies.

    `default` stands for a few statuses, and would let Schemathesis take every other one for documented too.
    """
    document = openapi_document()
    for path, methods in document["paths"].items():
        first_word = path.removeprefix(f"{API}/").partition("/")[0]
        for operation in methods.values():
            responses = operation["responses"]
            common = responses.pop("default")
            responses |= {str(status): common for status in COMMON_STATUSES if str(status) not in responses}
            for parameter in operation.get("parameters", ()):
                name = parameter["name"]
                values = world.known.get((first_word, name), world.known.get(("", name), ()))
                if parameter["in"] == "path" and values:
                    parameter["examples"] = {str(value): {"value": value} for value in values[:3]}
            bodies = [case.body for case in CASES[operation["operationId"]] if case.body is not None]
            if "requestBody" in operation and bodies:
                content = operation["requestBody"]["content"]["application/json"]
                content["examples"] = {str(number): {"value": body} for number, body in enumerate(bodies)}
    return document


CONFIG = """
seed = {seed}
continue-on-failure = true
hooks = "tests.faults.attack.schema_hooks"
suppress-health-check = ["all"]
request-timeout = 60
[cache]
enabled = false
[generation]
deterministic = true
database = "none"
no-shrink = true
max-examples = {examples}
[phases.coverage.generation]
mode = "{coverage}"
[phases.stateful.generation]
max-examples = {scenarios}
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "503"]
[checks.positive_data_acceptance]
enabled = false
"""


def run(world: World, caller: str, folder: Path) -> dict[str, Any]:
    """Run Schemathesis as a caller; its report."""
    schema, config, report, plan = (folder / name for name in ("openapi.json", "st.toml", "report.json", "plan.json"))
    schema.write_text(json.dumps(with_examples(world)))
    coverage = "all" if caller == "administrator" or EXAMPLES > EXAMPLES_DEFAULT else "positive"
    config.write_text(CONFIG.format(seed=SEED, examples=EXAMPLES, scenarios=10 * EXAMPLES, coverage=coverage))
    given = {
        "credentials": world.credentials[caller],
        "dry_runs": world.dry_runs,
        "statuses": str(folder / "statuses.json"),
    }
    plan.write_text(json.dumps(given))
    command = [
        sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run", str(schema),
        "--url", f"http://127.0.0.1:{world.up.base}", "--phases", ",".join(PHASES), "--report-json-path", str(report),
        "--no-color", *ARGUMENTS,
    ]  # fmt: skip
    with (folder / "output.txt").open("wb") as output:
        environment = {**os.environ, PLAN: str(plan)}
        subprocess.run(command, cwd=PROJECT, env=environment, stdout=output, stderr=output, check=False)
    found: dict[str, Any] = json.loads(report.read_text())
    return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A running system. Nothing it sends leaves the machine."""
    up = Up(
        tmp_path_factory.mktemp("schema"), QMQ_ANALYTICS_EVERY_SECONDS="0", QMQ_BEHIND_PROXY="127.0.0.1",
        QMQ_SMTP_HOST="127.0.0.1", QMQ_SMTP_PORT="9",
    )  # fmt: skip
    try:
        up.start()
        yield furnish(up)
    finally:
        up.stop()


@in_whole_attack_runs
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("caller", CALLERS)
def test_every_response_of_a_whole_system_conforms_to_the_file(world: World, caller: str, tmp_path: Path) -> None:
    report = run(world, caller, tmp_path)
    cases, seconds = report["test_cases"]["generated"], report["running_time"]
    print(f"{caller}: {report['operations']['tested']} operations, {cases} requests, {seconds:.0f} s")
    statuses: dict[str, list[int]] = json.loads((tmp_path / "statuses.json").read_text())
    accepted = [label for label, found in statuses.items() if any(200 <= status < 300 for status in found)]
    print(f"{len(accepted)} operations accepted requests")
    assert report["complete"]
    assert report["operations"]["tested"] == report["operations"]["total"]
    assert {name for name, phase in report["phases"].items() if phase["skip_reason"] is None} == set(PHASES)
    failures = [*report["failures"], *report["errors"]]
    if failures:
        raise PromiseBroken("\n".join([*map(str, failures), (tmp_path / "output.txt").read_text()]))
    with judging():
        assert len(accepted) >= CALLERS[caller]
        assert caller != "anonymous" or accepted == []
    assert world.up.process is not None
    assert {process.pid for process in children(world.up.process.pid)} == world.pids
    errors = re.findall(r"^.*(?:Traceback| ERROR | CRITICAL |MemoryError).*$", world.up.text(), re.MULTILINE)
    assert errors == []
