"""README's commands run as they are written."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support.processes import PROJECT
from tests.support.up import Up

BLOCKS = re.findall(r"```sh\n(.*?)```", (PROJECT / "README.md").read_text(), re.S)


def test_the_readmes_commands_work_as_written(up: Up) -> None:
    assert any("make up" in block for block in BLOCKS)
    assert any("make test" in block for block in BLOCKS)
    ran = 0
    console = f"http://127.0.0.1:{up.base}"
    environment = {
        **up.environment,
        "PATH": f"{Path(sys.executable).parent}:{up.environment['PATH']}",
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
