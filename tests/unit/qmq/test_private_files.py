"""Data folders and secrets that no other user can read."""

import multiprocessing
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qmq import private_files
from qmq.errors import SettingError
from qmq.private_files import keep_secret, make_private_dir, replace_secret, restrict_umask

PROCESSES = 12
ROUNDS = 10


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_files_of_a_process_with_the_umask_are_its_owners_alone(tmp_path: Path) -> None:
    restrict_umask()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").touch()
    assert (mode(tmp_path / "folder"), mode(tmp_path / "folder/file")) == (0o700, 0o600)


def test_a_new_folder_is_private(tmp_path: Path) -> None:
    make_private_dir(str(tmp_path / "a/data"))
    assert mode(tmp_path / "a/data") == 0o700


@pytest.mark.parametrize("other", [False, True])
def test_a_secret_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: bool) -> None:
    path = tmp_path / "node_token"
    assert keep_secret(str(path), lambda: "ours") == "ours"
    owner = os.fstat
    found: list[int] = []

    def fstat(fd: int) -> os.stat_result:
        values = owner(fd)
        if stat.S_ISREG(values.st_mode):
            found.append(values.st_uid)
            return os.stat_result((*values[:4], values.st_uid + other, *values[5:10]))
        return values

    monkeypatch.setattr("qmq.private_files.os.fstat", fstat)
    if other:
        with pytest.raises(SettingError, match=f"node_token belongs to user {os.geteuid() + 1}, .*delete the file"):
            keep_secret(str(path), lambda: "new")
    else:
        assert keep_secret(str(path), lambda: "new") == "ours"
    assert found == [os.geteuid()]
    assert path.read_text() == "ours\n"


def test_a_secret_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("theirs")
    (tmp_path / "node_token").symlink_to(tmp_path / "elsewhere")
    tmp_path.chmod(0o700)
    with pytest.raises(SettingError, match=r"node_token is a link; delete it"):
        keep_secret(str(tmp_path / "node_token"), lambda: "new")


def test_an_existing_folder_and_everything_in_it_is_restricted(tmp_path: Path) -> None:
    data, outside = tmp_path / "data", tmp_path / "outside"
    (data / "g1-a/log").mkdir(parents=True)
    files = [data / "meta.sqlite3", data / "g1-a/lock", data / "g1-a/log/0"]
    for file in files:
        file.write_text("x")
    files[1].chmod(0o640)
    data.chmod(0o2777)
    outside.write_text("not ours to change")
    (data / "link").symlink_to(outside)
    (data / "nowhere").symlink_to("/nonexistent")
    make_private_dir(str(data))
    assert mode(data) == 0o2700, "the set-group-ID bit stays"
    assert [mode(path) for path in (data / "g1-a", data / "g1-a/log", *files)] == [0o700, 0o700, 0o600, 0o600, 0o600]
    assert mode(outside) == 0o644, "links are not followed"
    make_private_dir(str(data))


@pytest.mark.parametrize("bits", [0o755, 0o1777, 0o750])
def test_a_folder_that_serves_something_else_is_refused_and_unchanged(tmp_path: Path, bits: int) -> None:
    shared = tmp_path / "home"
    (shared / "photos").mkdir(parents=True)
    shared.chmod(bits)
    with pytest.raises(
        SettingError, match=rf"folder {shared} is open to other users and contains files that PyQMQ did not"
    ):
        make_private_dir(str(shared))
    assert (mode(shared), mode(shared / "photos")) == (bits, 0o755)
    shared.chmod(0o700)
    make_private_dir(str(shared))
    assert mode(shared / "photos") == 0o755


@pytest.mark.parametrize("names", [[], ["lost+found"]])
def test_an_empty_folder_may_be_used(tmp_path: Path, names: list[str]) -> None:
    (tmp_path / "mount").mkdir()
    for name in names:
        (tmp_path / "mount" / name).mkdir(mode=0o700)
    make_private_dir(str(tmp_path / "mount"))
    assert mode(tmp_path / "mount") == 0o700


@pytest.mark.parametrize("name", ["node.json", "secret_key", "up.lock", "routes.json", "meta.sqlite3"])
def test_a_data_folder_of_an_earlier_version_is_recognized(tmp_path: Path, name: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for file in (name, "other"):
        (data / file).touch()
    make_private_dir(str(data))
    assert (mode(data), mode(data / "other")) == (0o700, 0o600)


def test_a_private_folder_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A node may have a hundred thousand files, and starts often.
    make_private_dir(str(tmp_path / "data"))
    monkeypatch.setattr(private_files, "_restrict_below", None)
    make_private_dir(str(tmp_path / "data"))


def test_a_folder_behind_a_link_is_restricted(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    (tmp_path / "var").symlink_to(disk)
    make_private_dir(str(tmp_path / "var"))
    assert mode(disk) == 0o700


def test_a_folder_of_another_user_is_refused_and_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    data.mkdir()
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(SettingError, match=rf"{data} belongs to user {other - 1}, this process runs as user {other}"):
        make_private_dir(str(data))
    assert mode(data) == 0o755


def test_a_file_that_cannot_be_restricted_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data/inner").mkdir(parents=True)
    (tmp_path / "data/node.json").touch()
    (tmp_path / "data/inner/foreign").touch()
    chmod = os.chmod

    def refuse(path: Any, *arguments: Any, **options: Any) -> None:
        if path == "foreign":
            raise PermissionError(1, "Operation not permitted")
        chmod(path, *arguments, **options)

    monkeypatch.setattr(os, "chmod", refuse)
    with pytest.raises(SettingError, match="data/inner/foreign can't be restricted to its owner: Operation not permi"):
        make_private_dir(str(tmp_path / "data"))


def test_a_file_system_without_modes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(os, "fchmod", lambda *_: None)
    with pytest.raises(SettingError, match="does not support modes"):
        make_private_dir(str(tmp_path / "data"))


def test_files_that_disappear_meanwhile_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data/inner").mkdir(parents=True)
    (tmp_path / "data/node.json").touch()
    for name in ("a", "b"):
        (tmp_path / "data/inner" / name).touch()
    status = os.stat

    def stat_and_remove(path: Any, *arguments: Any, **options: Any) -> os.stat_result:
        if path == "a":
            os.unlink(path, dir_fd=options["dir_fd"])
        return status(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", stat_and_remove)
    make_private_dir(str(tmp_path / "data"))
    assert mode(tmp_path / "data/inner/b") == 0o600


def test_a_secret_is_created_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "data/secret"
    assert keep_secret(str(path), lambda: "first") == "first"
    assert keep_secret(str(path), lambda: "second") == "first"
    assert (mode(path.parent), mode(path)) == (0o700, 0o600)
    assert [entry.name for entry in path.parent.iterdir()] == ["secret"]


def test_the_folder_of_an_existing_secret_is_restricted(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o755)
    (tmp_path / "data/secret").write_text("old")
    (tmp_path / "data/secret_key").write_text("x")
    assert keep_secret(str(tmp_path / "data/secret"), lambda: "new") == "old"
    assert (mode(tmp_path / "data"), mode(tmp_path / "data/secret")) == (0o700, 0o600)


def test_an_empty_secret_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").touch()
    with pytest.raises(SettingError, match=r"secret is empty; delete it"):
        keep_secret(str(tmp_path / "secret"), lambda: "new")


def test_a_secret_is_never_seen_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret"
    seen: list[bool] = []
    sync = os.fsync

    def look(fd: int) -> None:
        seen.append(path.exists())
        sync(fd)

    monkeypatch.setattr(os, "fsync", look)
    keep_secret(str(path), lambda: "new")
    assert seen == [False, True], "written and synced aside, then linked, then the folder synced"


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        keep_secret(str(tmp_path / "data/secret"), lambda: "new")
    assert list((tmp_path / "data").iterdir()) == []


def test_a_secret_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "first_password"
    path.write_text("old")
    replace_secret(str(path), "new")
    assert (path.read_text(), mode(path)) == ("new\n", 0o600)
    assert [entry.name for entry in tmp_path.iterdir()] == ["first_password"]


def _keep(path: str, number: int, ready: Any, results: Any) -> None:
    ready.wait()
    results.put(keep_secret(path, lambda: f"secret of process {number}"))


@pytest.mark.slow
def test_processes_that_start_at_once_agree_on_one_secret(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    for round_ in range(ROUNDS):
        path = str(tmp_path / f"data{round_}/secret")
        ready, results = context.Barrier(PROCESSES), context.SimpleQueue()
        processes = [context.Process(target=_keep, args=(path, i, ready, results)) for i in range(PROCESSES)]
        for process in processes:
            process.start()
        found = {results.get() for _ in processes}
        for process in processes:
            process.join()
        assert [process.exitcode for process in processes] == [0] * PROCESSES
        assert len(found) == 1
        assert os.listdir(tmp_path / f"data{round_}") == ["secret"]
