"""The docs are true: README's commands run, every setting is listed."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_node.options import BrokerOptions
from delay_node.options import DelayOptions
from metaserver.options import MetaOptions
from qmq.daemon.options import options_markdown
from tests.support.processes import PROJECT, answers
from tests.support.up import Up
from tests.support.waiting import eventually

README = (PROJECT / "README.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", README, re.S)


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    found = Up(tmp_path)
    try:
        found.start()
        yield found
    finally:
        found.stop()


def test_the_readmes_commands_work_as_written(up: Up) -> None:
    assert any("make up" in block for block in BLOCKS)
    assert any("make test" in block for block in BLOCKS)
    ran = 0
    console = f"http://127.0.0.1:{up.base}"
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "QMQ_META": up.meta,
        "QMQ_CONSOLE": console,
        "QMQ_DATA_DIR": str(up.data_dir),
    }
    for block in BLOCKS:
        # `make` starts and tests what this test has started and is; the rest of a block runs as it stands.
        lines = [line for line in block.splitlines() if line and not line.startswith(("#", "make ", ". "))]
        if not lines:
            continue
        script = "\n".join(lines).replace("http://localhost:8000", console)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, timeout=120, env=environment,
            cwd=PROJECT, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{script}:\n{done.stdout}{done.stderr}"
        ran += len(lines)
    assert ran >= 20


def test_up_restarts_what_crashes_refuses_a_second_start_and_leaves_nothing(up: Up, tmp_path: Path) -> None:
    children = subprocess.run(
        ["ps", "-eww", "-o", "pid,args"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    ours = {int(line.split()[0]): line for line in children if str(tmp_path) in line and "manage.py" not in line}
    assert len(ours) == 4, ours
    (broker,) = [pid for pid, line in ours.items() if "g1-a" in line]
    os.kill(broker, signal.SIGKILL)
    eventually(lambda: "starting it again" in up.text())
    eventually(lambda: answers(f"http://127.0.0.1:{up.base + 4}/readyz"), what="the broker serves again")
    second = subprocess.run(up.command, capture_output=True, text=True, timeout=60, cwd=PROJECT, check=False)
    assert second.returncode == 2
    assert "another system runs in" in second.stderr
    elsewhere = [*up.command[:4], str(tmp_path / "other"), *up.command[5:]]
    third = subprocess.run(elsewhere, capture_output=True, text=True, timeout=60, cwd=PROJECT, check=False)
    assert third.returncode == 2
    assert f"port {up.base} (console) is taken" in third.stderr
    assert answers(f"http://127.0.0.1:{up.base}/healthz")
    assert up.stop() == 0
    assert up.start() < 60, "a second start is ready"
    assert up.stop() == 0
    left = subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in left


def test_every_setting_is_documented() -> None:
    text = (PROJECT / "docs/reference/settings.md").read_text()
    assert text == settings_page(), (
        "docs/reference/settings.md is stale: python -m tests.served.docs.test_docs writes it"
    )


def settings_page() -> str:
    """docs/reference/settings.md, from the options themselves."""
    return (
        "# Settings\n\nMade from the code (`python -m tests.served.docs.test_docs`). Each can be given as a flag, in the"
        " environment, or in a TOML file named with `--config`; the first of these that says something counts.\n\n"
        f"## Broker node: `python -m broker_node`\n\n{options_markdown(BrokerOptions, 'broker')}\n"
        f"## Delay node: `python -m delay_node`\n\n{options_markdown(DelayOptions, 'delay')}\n"
        f"## Metaserver: `python -m metaserver`\n\n{options_markdown(MetaOptions, 'meta')}"
    )


if __name__ == "__main__":
    (PROJECT / "docs/reference/settings.md").write_text(settings_page())
