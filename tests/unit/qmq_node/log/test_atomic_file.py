"""Replacing a file: a power cut or an error at any operation leaves the old content or the new one, never none or half."""

import errno
import os
from pathlib import Path

import pytest

from qmq_node.log.atomic_file import replace_file
from qmq_node.log.disk import SystemDisk
from tests.support.disks.memory_disk import MemoryDisk, SimulatedCrash

OLD, NEW = b"old" * 1_000, b"new" * 3_000
PATH = "folder/state.json"


def content(disk: MemoryDisk) -> bytes | None:
    return bytes(disk.names[PATH].content) if PATH in disk.names else None


def with_old() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_dir("folder")
    replace_file(disk, PATH, [OLD])
    return disk


def steps() -> int:
    disk = with_old()
    before = disk.steps
    replace_file(disk, PATH, [NEW])
    return disk.steps - before


@pytest.mark.parametrize("has_leftover", [False, True])
@pytest.mark.parametrize("at", range(steps() + 1))
def test_a_power_cut_at_any_operation_leaves_the_old_or_the_new_file(at: int, has_leftover: bool) -> None:
    disk = with_old()
    if has_leftover:
        disk.create(f"{PATH}.tmp", 0).pwritev([b"leftover"], 0)
    disk.crash_at = disk.steps + at
    is_complete = False
    try:
        replace_file(disk, PATH, [NEW[:100], NEW[100:]])
        is_complete = True
    except SimulatedCrash:
        pass
    assert is_complete == (at == steps() and not has_leftover)
    for state in disk.crash_states(50, seed=at):
        assert content(state) in ({NEW} if is_complete else {OLD, NEW})
        replace_file(state, PATH, [b"next"])
        assert content(state) == b"next", "what was left behind is no obstacle"
        assert state.list_dir("folder") == ["state.json"]


@pytest.mark.parametrize("what", ["create", "write", "sync", "rename"])
def test_an_error_leaves_the_old_file_and_is_raised(what: str) -> None:
    disk = with_old()
    disk.fail = lambda step, path: OSError(errno.EIO, "no") if step == what else None
    with pytest.raises(OSError, match="no"):
        replace_file(disk, PATH, [NEW])
    assert content(disk) == OLD
    disk.fail = None
    replace_file(disk, PATH, [NEW])
    assert content(disk.after_power_cut()) == NEW


def test_a_first_file_is_there_whole_or_not_at_all() -> None:
    for at in range(10):
        disk = MemoryDisk()
        disk.make_dir("folder")
        disk.crash_at = at
        try:
            replace_file(disk, PATH, [NEW])
        except SimulatedCrash:
            assert {content(state) for state in disk.crash_states(50, seed=at)} <= {None, NEW}
        else:
            assert {content(state) for state in disk.crash_states(50, seed=at)} == {NEW}


def test_on_the_systems_disk_also_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("state", str(tmp_path / "other")):
        for data in (OLD, NEW):
            replace_file(SystemDisk(), path, [data[:10], data[10:]])
            assert Path(path).read_bytes() == data
    assert sorted(os.listdir(tmp_path)) == ["other", "state"]
