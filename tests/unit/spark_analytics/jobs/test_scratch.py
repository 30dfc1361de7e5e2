"""Folders for what does not fit memory: gone with their call, or with the next one after a kill."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spark_analytics.jobs.scratch import LOCK, PREFIX, UNLOCKED_SECONDS, scratch_folder
from tests.support.servers.processes import PROJECT

HOLDER = """
import sys
from pathlib import Path
from spark_analytics.jobs.scratch import scratch_folder
with scratch_folder(Path(sys.argv[1])) as folder:
    (folder / "blocks").mkdir()
    (folder / "blocks" / "shuffle").write_bytes(b"x" * 1000)
    print(folder, flush=True)
    sys.stdin.read()
"""


def folders(parent: Path) -> set[Path]:
    return set(parent.glob(f"{PREFIX}*"))


def test_it_goes_with_its_call_also_with_a_failed_one(tmp_path: Path) -> None:
    with scratch_folder(tmp_path) as folder:
        (folder / "blocks").mkdir()
        assert folders(tmp_path) == {folder}
    assert folders(tmp_path) == set()
    with pytest.raises(ValueError, match="no luck"), scratch_folder(tmp_path):
        raise ValueError("no luck")
    assert folders(tmp_path) == set()


def test_what_a_killed_call_left_goes_with_the_next_and_what_is_in_use_stays(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        held = Path(holder.stdout.readline().strip())
        with scratch_folder(tmp_path) as ours:
            assert folders(tmp_path) == {held, ours}
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert folders(tmp_path) == {held}
    with scratch_folder(tmp_path) as ours:
        assert folders(tmp_path) == {ours}


def test_one_without_a_lock_goes_when_it_is_old(tmp_path: Path) -> None:
    new, old, other = (tmp_path / f"{PREFIX}{name}" for name in ("new", "old", "link"))
    new.mkdir()
    old.mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / LOCK).touch()
    other.symlink_to(outside)
    past = old.stat().st_mtime - UNLOCKED_SECONDS - 60
    os.utime(old, (past, past))
    with scratch_folder(tmp_path) as ours:
        assert folders(tmp_path) == {new, other, ours}
    assert (outside / LOCK).exists()
