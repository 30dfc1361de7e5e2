"""Commands and programs of README and of the documentation run as they are written."""

import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.served.up.pages import PAGES
from tests.support.servers.processes import PROJECT
from tests.support.servers.up import Up
from tests.support.waiting import eventually

_BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.S | re.M)
BLOCKS = {page: _BLOCK.findall((PROJECT / page).read_text()) for page in PAGES}
SECONDS = 120


def _environment(up: Up) -> dict[str, str]:
    return {
        **up.environment,
        "PATH": f"{Path(sys.executable).parent}:{up.environment['PATH']}",
        "PYTHONUNBUFFERED": "1",
        "QMQ_META": up.meta,
        "QMQ_CONSOLE": f"http://127.0.0.1:{up.base}",
        "QMQ_DATA_DIR": str(up.data_dir),
    }


def _run(up: Up, command: list[str], what: str) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, env=_environment(up), cwd=PROJECT, check=False
    )
    assert done.returncode == 0, f"{what}:\n{done.stdout}{done.stderr}"


def test_readme_has_the_commands_of_a_newcomer() -> None:
    text = "\n".join(block for kind, block in BLOCKS["README.md"] if kind == "sh")
    assert "make up" in text
    assert "make test" in text
    assert sum(len(blocks) for blocks in BLOCKS.values()) >= 20


@pytest.mark.parametrize("page", [page for page, blocks in BLOCKS.items() if blocks])
def test_a_page_runs_as_written(up: Up, page: str, tmp_path: Path) -> None:
    workers: list[subprocess.Popen[str]] = []
    logs: list[Path] = []
    try:
        for number, (kind, block) in enumerate(BLOCKS[page]):
            text = block.replace("http://localhost:8000", f"http://127.0.0.1:{up.base}").replace(
                "localhost:8080", up.meta
            )
            if kind == "sh":
                # `make` starts and tests what this test has started and is; the rest of a block runs as it stands.
                lines = [line for line in text.splitlines() if line and not line.startswith(("#", "make ", ". "))]
                if lines:
                    _run(up, ["bash", "-euo", "pipefail", "-c", "\n".join(lines)], text)
                continue
            program = tmp_path / f"program_{number}.py"
            program.write_text(text)
            if "app.run()" not in text:
                _run(up, [sys.executable, str(program)], text)
                continue
            logs.append(tmp_path / f"program_{number}.log")
            with open(logs[-1], "w") as log:
                workers.append(
                    subprocess.Popen(
                        [sys.executable, str(program)],
                        stdout=log,
                        stderr=log,
                        text=True,
                        env=_environment(up),
                        cwd=tmp_path,
                    )
                )
        for worker, path in zip(workers, logs, strict=True):
            eventually(lambda path=path: "attempt 1:" in path.read_text(), what="a message handled")  # type: ignore[misc]
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(SECONDS) == 0, path.read_text()
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def _documented_metrics() -> set[str]:
    """Names in the tables of docs/reference/metrics.md. `_x` after `qmq_broker_...` stands for `qmq_broker_x`."""
    names: set[str] = set()
    text = (PROJECT / "docs/reference/metrics.md").read_text()
    for cell in re.findall(r"^\| (qmq_[^|]*) \|", text, re.M):
        prefix = ""
        for name in re.sub(r"\{[^}]*\}", "", cell).replace(",", " ").split():
            if name.startswith("qmq_"):
                prefix = "_".join(name.split("_")[:2])
            names.add(name if name.startswith("qmq_") else prefix + name)
    return names


def _metrics(up: Up, token: str) -> set[str]:
    """Names that the console, the metaserver, and masters and slaves of a broker and a delay group serve."""
    ports = (up.base, up.base + 1, up.base + 4, up.base + 11, up.base + 8, up.base + 26)
    names: set[str] = set()
    for port in ports:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/metrics", headers={"Authorization": f"Bearer {token}"} if port == up.base else {}
        )
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            names |= set(re.findall(r"^# TYPE (qmq_\w+)", answer.read().decode(), re.M))
    return names


def test_every_metric_is_documented_and_every_documented_metric_exists(up: Up, token: str) -> None:
    documented = _documented_metrics()
    real = {name for name in _metrics(up, token) if not name.endswith("_created")}
    shared = {name.replace("qmq_broker_", prefix) for name in documented for prefix in ("qmq_delay_", "qmq_meta_")}
    assert documented <= real
    assert real - documented <= shared


def test_queries_of_the_monitoring_page_name_metrics(up: Up, token: str) -> None:
    text = (PROJECT / "docs/how-to/monitor.md").read_text()
    names = {re.sub(r"_bucket$", "", name) for name in re.findall(r"\bqmq_[a-z_]+", re.sub(r"`/[^`]*`", "", text))}
    assert len(names) >= 10
    assert names <= _metrics(up, token) | {"qmq_metrics_token", "qmq_api_token"}


def test_the_built_in_alert_rules_are_documented(up: Up, token: str) -> None:
    rules = {rule["name"] for rule in up.get("/alert-rules/?limit=500", token)["results"] if rule["is_builtin"]}
    table = (PROJECT / "docs/alerts.md").read_text().partition("### Built-in rules")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| ([A-Z][^|]*?) \| `", table, re.M)) == rules
