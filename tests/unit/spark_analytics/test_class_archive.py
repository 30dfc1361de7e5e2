"""The file that makes a JVM start sooner: named by what it fits, seen only whole, given up with what failed."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from spark_analytics.class_archive import ClassArchive
from tests.unit.spark_analytics.java import fake_java

WRITES_AT_ITS_END = 'cat > /dev/null; printf whole > "$1"'


@pytest.fixture
def java(tmp_path: Path) -> Path:
    return java_of(tmp_path / "java", "17.0.1")


def java_of(home: Path, version: str) -> Path:
    """A JAVA_HOME that says this version."""
    fake_java(home, f'openjdk version "{version}"')
    return home


def start(
    monkeypatch: pytest.MonkeyPatch, archive: ClassArchive, does: str = WRITES_AT_ITS_END
) -> "subprocess.Popen[bytes]":
    """A process in the JVM's place, with the file it was told to write."""
    (unfinished,) = [word for word in archive.java_options().split('"') if "ArchiveClassesAtExit" in word]
    process = subprocess.Popen(["sh", "-c", does, "sh", unfinished.partition("=")[2]], stdin=subprocess.PIPE)
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
    return process


def test_the_first_session_writes_it_and_the_next_uses_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, java: Path
) -> None:
    folder = tmp_path / "a cache"
    first = ClassArchive(folder, java, may_write=True)
    assert first.is_written
    start(monkeypatch, first)
    assert not first.path.exists()
    assert first.keep()
    assert first.path.read_text() == "whole"
    second = ClassArchive(folder, java, may_write=True)
    assert not second.is_written
    assert f'"-XX:SharedArchiveFile={first.path}"' in second.java_options()
    assert not second.keep()


def test_another_java_gets_one_of_its_own_in_the_place_of_the_old(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, java: Path
) -> None:
    for home in (java, java_of(tmp_path / "newer", "21.0.2")):
        archive = ClassArchive(tmp_path / "cache", home, may_write=True)
        assert archive.is_written
        (tmp_path / "cache").mkdir(exist_ok=True)
        (tmp_path / "cache" / "spark-of-one-that-was-killed.77.new").touch()
        start(monkeypatch, archive)
        assert archive.keep()
        assert list((tmp_path / "cache").iterdir()) == [archive.path]


def test_who_may_not_write_goes_without(tmp_path: Path, java: Path) -> None:
    archive = ClassArchive(tmp_path / "cache", java, may_write=False)
    assert archive.java_options() == ""
    assert not archive.is_written
    assert not archive.keep()
    assert not (tmp_path / "cache").exists()


def test_where_it_can_not_be_written_the_run_goes_on_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, java: Path
) -> None:
    (tmp_path / "cache").write_text("no folder")
    archive = ClassArchive(tmp_path / "cache", java, may_write=True)
    assert not archive.is_written
    assert archive.java_options() == ""

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    archive = ClassArchive(tmp_path / "other", java, may_write=True)
    start(monkeypatch, archive)
    monkeypatch.setattr("spark_analytics.class_archive.os.fsync", full)
    assert not archive.keep()
    assert list((tmp_path / "other").iterdir()) == []


@pytest.mark.parametrize("does", ["cat > /dev/null", 'cat > /dev/null; printf half > "$1"; exit 1'])
def test_a_java_that_fails_or_writes_nothing_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, java: Path, does: str
) -> None:
    archive = ClassArchive(tmp_path / "cache", java, may_write=True)
    start(monkeypatch, archive, does)
    assert not archive.keep()
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_java_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, java: Path) -> None:
    archive = ClassArchive(tmp_path / "cache", java, may_write=True)
    process = start(monkeypatch, archive, 'printf half > "$1"; exec sleep 600')
    monkeypatch.setattr("spark_analytics.class_archive.WRITE_SECONDS_MAX", 0.2)
    assert not archive.keep()
    assert process.returncode is not None
    assert list((tmp_path / "cache").iterdir()) == []


def test_what_a_failed_run_has_learned_is_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, java: Path) -> None:
    archive = ClassArchive(tmp_path / "cache", java, may_write=True)
    process = start(monkeypatch, archive)
    archive.give_up()
    assert process.returncode is not None
    assert list((tmp_path / "cache").iterdir()) == []


def test_one_that_is_told_to_end_meanwhile_leaves_no_java(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, java: Path
) -> None:
    archive = ClassArchive(tmp_path / "cache", java, may_write=True)
    process = start(monkeypatch, archive, 'printf half > "$1"; exec sleep 600')
    wait = process.wait

    def told(timeout: float | None = None) -> int:
        if timeout is not None:
            raise KeyboardInterrupt
        return wait()

    monkeypatch.setattr(process, "wait", told)
    with pytest.raises(KeyboardInterrupt):
        archive.keep()
    assert process.returncode is not None
    assert list((tmp_path / "cache").iterdir()) == []
