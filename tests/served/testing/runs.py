"""Runs pytest on files of an imagined user, in a process of its own."""

from collections.abc import Callable

import pytest

from tests.support.servers.processes import PROJECT

RunTests = Callable[..., pytest.RunResult]
ASYNCIO_SETTINGS = "asyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"


@pytest.fixture
def run_tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> RunTests:
    """Run the tests of one file, or of several by name, as a user would. Every warning fails, such as that of an open socket.

    The plugin is named explicitly, so that this checkout's is used and not that of an installed package.
    """
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name in ("PYTEST_ADDOPTS", "DJANGO_SETTINGS_MODULE", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)

    def run(texts: str | dict[str, str], *options: str, plugins: tuple[str, ...] = ("asyncio",)) -> pytest.RunResult:
        settings = ASYNCIO_SETTINGS if "asyncio" in plugins else ""
        pytester.makefile(".ini", pytest=f"[pytest]\nfilterwarnings = error\n{settings}")
        pytester.makepyfile(**({"test_application": texts} if isinstance(texts, str) else texts))
        names = [part for plugin in ("qmq_testing.plugin", *plugins) for part in ("-p", plugin)]
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *names, *options)

    return run
