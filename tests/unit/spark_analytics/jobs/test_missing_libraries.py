"""The error for a missing library names the command that installs it."""

from importlib.metadata import PackageNotFoundError

import pytest

from spark_analytics.jobs import __main__ as jobs


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "analytics: deltalake is not installed: pip install 'pyqmq[analytics]'"),
        ("1.5.9", "analytics: deltalake 1.5.9 is too old, 1.6 is the least: pip install --upgrade 'pyqmq[analytics]'"),
        (
            "0.25.5",
            "analytics: deltalake 0.25.5 is too old, 1.6 is the least: pip install --upgrade 'pyqmq[analytics]'",
        ),
    ],
)
def test_without_the_library_of_the_lakes_log_nothing_is_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], found: str | None, said: str
) -> None:
    def version(name: str) -> str:
        assert name == "deltalake"
        if found is None:
            raise PackageNotFoundError(name)
        return found

    monkeypatch.setattr(jobs, "version", version)
    assert jobs.main(["lag"]) == jobs.EXIT_UNAVAILABLE
    assert capsys.readouterr().err.strip() == said


@pytest.mark.parametrize("found", ["1.6.0", "1.10.2", "2.0.0rc1"])
def test_newer_ones_will_do(monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    monkeypatch.setattr(jobs, "version", lambda name: found)
    assert jobs._without_log() == ""
