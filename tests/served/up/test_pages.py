"""Commands and programs of README and of the documentation run as they are written."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import PROJECT
from tests.support.up import Up
from tests.support.waiting import eventually

FOLDERS = ("docs/tutorials", "docs/how-to")
PAGES = ("README.md", "CONTRIBUTING.md", "docs/alerts.md", *sorted(
    str(path.relative_to(PROJECT)) for folder in FOLDERS for path in (PROJECT / folder).glob("*.md")
))  # fmt: skip
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
