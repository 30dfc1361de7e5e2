"""Runs pytest on files of an imagined user, in a process of its own."""

from collections.abc import Callable

import pytest

from tests.support.processes import PROJECT

RunTests = Callable[..., pytest.RunResult]
ASYNCIO_SETTINGS = "asyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"


@pytest.fixture
def run_tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> RunTests:
    """Run the tests of one file as a user would: every warning fails, and so do sockets and threads that are left.

    The plugin is named explicitly, so that this checkout's is used and not that of an installed package.
    """
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name in ("PYTEST_ADDOPTS", "DJANGO_SETTINGS_MODULE", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)

    def run(text: str, *options: str, plugins: tuple[str, ...] = ("asyncio",)) -> pytest.RunResult:
        settings = ASYNCIO_SETTINGS if "asyncio" in plugins else ""
        pytester.makefile(".ini", pytest=f"[pytest]\nfilterwarnings = error\n{settings}")
        pytester.makepyfile(test_application=text)
        names = [part for plugin in ("qmq_testing.plugin", *plugins) for part in ("-p", plugin)]
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *names, *options)

    return run
