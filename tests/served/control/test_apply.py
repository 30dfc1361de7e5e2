"""`qmq apply` against a whole system."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.servers.processes import PROJECT
from tests.support.servers.system import System

DOCUMENT = """
subjects:
  - name: orders
    tags: [money]
    messages_per_second: 500
    consumer_groups:
      - name: billing
        description: sends invoices
      - shipping
  - name: old
    archived: true
"""


def qmq(plane: System, *arguments: str, token: str | None = None) -> tuple[int, str, str]:
    environment = {
        **os.environ,
        "QMQ_CONSOLE": f"http://127.0.0.1:{plane.port}",
        "QMQ_TOKEN": plane.token if token is None else token,
    }
    done = subprocess.run(
        [sys.executable, "-m", "qmq.cli", "apply", *arguments],
        cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_a_document_is_planned_applied_and_changes_nothing_the_second_time(
    console_only: System, tmp_path: Path
) -> None:
    plane, path = console_only, tmp_path / "system.yaml"
    # Teams are accounts: no token changes those, a person does.
    path.write_text("teams:\n  - shop\n" + DOCUMENT)
    code, _, refused = qmq(plane, "-f", str(path))
    assert (code, "change_accounts" in refused) == (1, True)
    path.write_text(DOCUMENT)
    code, planned, _ = qmq(plane, "-f", str(path), "--dry-run")
    assert code == 0
    assert '+ subject orders: tags ["money"], messages_per_second 500' in planned, planned
    assert "+ consumer group orders/shipping" in planned
    assert "5 changes to apply" in planned
    assert plane.get("/subjects/")["results"] == []
    code, _, problem = qmq(plane, "-f", str(path))
    assert code == 0, problem
    assert plane.get("/subjects/orders/")["messages_per_second"] == 500
    assert plane.get("/subjects/old/")["is_archived"]
    code, again, _ = qmq(plane, "-f", str(path), "--json")
    assert code == 0
    assert not json.loads(again)["is_change"]

    path.write_text(DOCUMENT.replace("500", "-1"))
    code, _, refused = qmq(plane, "-f", str(path))
    assert code == 1
    assert "subject orders" in refused
    assert "-1" in refused
    path.write_text("subjects:\n  - name: orders\n    consumer_groups: [billing]\n")
    code, drift, _ = qmq(plane, "-f", str(path), "--dry-run")
    assert "? consumer group orders/shipping is not in the document" in drift
    code, _, wrong = qmq(plane, "-f", str(tmp_path / "none.yaml"))
    assert (code, "none.yaml: No such file" in wrong) == (2, True)
    code, _, wrong = qmq(plane, "-f", str(path), token="")
    assert (code, "QMQ_TOKEN" in wrong) == (2, True)
    code, _, wrong = qmq(plane, "-f", str(path), token="qmq_nonsense")
    assert (code, "unknown, expired or revoked" in wrong) == (1, True)
