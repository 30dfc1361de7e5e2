"""The secret key of a first start: all processes that start at once agree on one, and none reads it half written (S17)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers.processes import PROJECT

PROCESSES = 8
BARRIER = """
import os, sys
sys.stdout.write("waiting\\n"); sys.stdout.flush()
sys.stdin.readline()
from console import settings
print(settings.SECRET_KEY)
"""
CRASHED_WHILE_WRITING = """
import os
real = os.open
def pausing(path, flags, *rest, **options):
    fd = real(path, flags, *rest, **options)
    if "secret_key" in str(path) and flags & os.O_CREAT:
        os._exit(9)
    return fd
os.open = pausing
from console import settings
"""


def environment(folder: Path) -> dict[str, str]:
    base = {name: value for name, value in os.environ.items() if not name.startswith("QMQ_")}
    return {**base, "QMQ_DATA_DIR": str(folder / "data")}


def test_processes_that_start_at_once_have_one_key(tmp_path: Path) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", BARRIER], cwd=PROJECT, env=environment(tmp_path), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for _ in range(PROCESSES)
    ]  # fmt: skip
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = [process.communicate(timeout=60) for process in started]
    assert [process.returncode for process in started] == [0] * PROCESSES, said
    (key,) = {out.strip() for out, _ in said}
    assert len(key) >= 50
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["secret_key"]


def test_a_process_that_dies_while_it_writes_leaves_no_empty_key(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", CRASHED_WHILE_WRITING], cwd=PROJECT, env=environment(tmp_path), timeout=60, check=False
    )
    done = subprocess.run(
        [sys.executable, "-c", "from console import settings; print(len(settings.SECRET_KEY))"],
        cwd=PROJECT, env=environment(tmp_path), timeout=60, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert int(done.stdout) >= 50


def test_an_empty_key_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data/secret_key").touch(mode=0o600)
    done = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=PROJECT, env=environment(tmp_path), timeout=60, check=False, capture_output=True, text=True,
    )  # fmt: skip
    (line,) = done.stderr.strip().splitlines()
    assert done.returncode != 0
    assert "secret_key is empty; delete it" in line


NODE = ("--broker-group", "g1", "--node-id", "g1-a", "--port", "0", "--admin-port", "0")
DAEMONS = {
    "broker_node": ("-m", "broker_node", *NODE, "--data-dir"),
    "delay_node": ("-m", "delay_node", *NODE, "--data-dir"),
    "metaserver": ("-m", "metaserver", "--http-port", "0", "--tcp-port", "0", "--data-dir"),
    "up": ("manage.py", "up", "--data-dir"),
    "another command": ("manage.py", "showmigrations", "--data-dir"),
}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.parametrize("name", DAEMONS)
def test_a_folder_of_another_user_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o755)
    os.chown(folder, 65534, 65534)
    done = subprocess.run(
        [sys.executable, *DAEMONS[name], str(folder)],
        cwd=PROJECT, env=environment(tmp_path), timeout=60, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode not in (0, -9)
    (line,) = [line for line in done.stderr.strip().splitlines() if "belongs to user" in line]
    assert f"folder {folder} belongs to user 65534, this process runs as user 0; run it as that user" in line
    assert "Traceback" not in done.stderr
    assert list(folder.iterdir()) == []
