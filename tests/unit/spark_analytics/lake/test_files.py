"""The lake's small files in a folder: made once and whole, found again, locked by one process."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.fs
import pytest

from spark_analytics.lake.files import LakeBusy, LakeError, LocalFiles, RemoteFiles, local_folder
from tests.support.servers.processes import PROJECT


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    return LocalFiles(tmp_path / "lake")


def test_a_file_is_made_once(files: LocalFiles, tmp_path: Path) -> None:
    files.create("a/b/one", b"first")
    with pytest.raises(FileExistsError):
        files.create("a/b/one", b"second")
    assert files.read("a/b/one") == b"first"
    assert [path.name for path in (tmp_path / "lake/a/b").iterdir()] == ["one"], "no draft is left"


def test_what_is_not_there_is_said_to_be(files: LocalFiles) -> None:
    assert files.names("nowhere") == []
    assert list(files.walk("nowhere")) == []
    with pytest.raises(FileNotFoundError):
        files.read("nowhere/one")
    files.delete("nowhere")


def test_files_are_walked_and_deleted_and_empty_folders_after_them(files: LocalFiles) -> None:
    files.create("table/a/hour=01/one", b"12345")
    files.create("table/b/hour=01/two", b"1")
    (found, _) = sorted(files.walk("table"), key=lambda item: item.path)
    assert (found.path, found.size_bytes) == ("table/a/hour=01/one", 5)
    files.delete_empty(["table/a/hour=01"])
    assert sorted(files.names("table")) == ["a", "b"]
    files.delete("table/a/hour=01/one")
    files.delete_empty(["table/a/hour=01", "table/nowhere"])
    assert files.names("table") == ["b"]
    files.delete("table")
    assert list(files.walk("")) == []


def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteFiles:
    """Other storage: pyarrow's own, in memory."""
    system, _ = pyarrow.fs.FileSystem.from_uri("mock://")
    monkeypatch.setattr("spark_analytics.lake.files.open_place", lambda place, name: (system, "bucket/lake"))
    return RemoteFiles("gs://bucket/lake/")


def test_other_storage_does_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = storage(tmp_path, monkeypatch)
    assert (files.root, files.log_root) == ("gs://bucket/lake", "gs://bucket/lake")
    files.system.create_dir("bucket/lake/a/b")
    files.create("a/b/one", b"first")
    with pytest.raises(FileExistsError):
        files.create("a/b/one", b"second")
    assert files.read("a/b/one") == b"first"
    assert files.names("a") == ["b"]
    assert files.names("nowhere") == []
    assert [(found.path, found.size_bytes) for found in files.walk("a")] == [("a/b/one", 5)]
    with pytest.raises(FileNotFoundError):
        files.read("a/two")
    files.delete("a/b/one")
    files.delete("a")
    files.delete("nowhere")
    assert list(files.walk("")) == []
    files.lock()
    files.sync(["nothing"])
    files.delete_empty(["nothing"])
    files.unlock()


def test_without_the_library_a_lake_on_s3_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setenv("AWS_REGION", "us-east-1")  # otherwise it is looked for in the network
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(LakeError, match=r"needs obstore, which is not installed: pip install 'pyqmq\[analytics\]'"):
        RemoteFiles("s3a://bucket/lake").lock()


def test_a_file_lasts_with_the_names_of_all_folders_above_it(
    files: LocalFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def told(fd: int) -> None:
        synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), tmp_path))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", told)
    files.create("a/b/one", b"x")
    assert synced[0].startswith("lake/a/b/.one.")
    assert synced[1:] == ["lake/a/b", "lake/a", "lake"]
    files.create("a/two", b"x")
    synced.clear()
    files.sync(["a/b/one", "a/two"])
    assert sorted(synced) == ["lake", "lake/a", "lake/a/b", "lake/a/b/one", "lake/a/two"]


def test_one_process_writes_at_a_time_and_a_killed_one_holds_nothing(files: LocalFiles, tmp_path: Path) -> None:
    program = (
        "import sys; from spark_analytics.lake.files import LocalFiles; "
        "LocalFiles(sys.argv[1]).lock(); print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "lake")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT,
    )  # fmt: skip
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LakeBusy, match="wait until it ends"):
            files.lock()
    finally:
        holder.kill()
        holder.communicate()
    files.lock()
    files.unlock()
    LocalFiles(tmp_path / "lake").lock()


def test_a_lake_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("a file")
    with pytest.raises(LakeError, match="can't be written"):
        LocalFiles(tmp_path / "lake").lock()


@pytest.mark.parametrize(
    ("lake", "folder"),
    [
        ("/data/lake", "/data/lake"),
        ("var/lake", "var/lake"),
        ("file:///data/lake", "/data/lake"),
        ("file:/data/lake", "/data/lake"),
        ("hdfs://names:8020/lake", None),
        ("s3a://bucket/lake", None),
    ],
)
def test_uris_and_folders_are_told_apart(lake: str, folder: str | None) -> None:
    assert local_folder(lake) == folder


def test_a_file_uri_of_another_machine_is_refused() -> None:
    with pytest.raises(LakeError, match="folder of this machine"):
        local_folder("file://elsewhere/lake")
