"""What an extra of the package installs is enough for what it is for."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata

import pytest
from packaging.requirements import Requirement

from tools.prose import PROJECT

OURS = [
    f'{requirement}{" and" if ";" in requirement else ";"} extra == "{extra}"'
    for extra, requirements in tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ].items()
    for requirement in requirements
]
"""Requirements of our package, also where the installed one is older."""
IMPORTS = {
    "": ("qmq", "qmq.sync", "qmq.cli", "qmq.client.bodies", "qmq.middleware.logs"),
    "opentelemetry": ("qmq.middleware.opentelemetry",),
    "prometheus": ("qmq.middleware.prometheus",),
    "zstd": ("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd",),
    "node": ("broker_node.__main__", "delay_node.__main__"),
    "testing": ("pytest", "qmq_testing.plugin", "qmq_testing.server", "qmq_testing.deliveries"),
    "django": ("qmq.integrations.django", "qmq.integrations.django.management.commands.qmq_consume"),
    "console": ("metaserver.__main__", "console.asgi", "console.celery", "kombu.transport.redis", "uvicorn.main"),
}
"""Modules that the processes of an extra need. Celery imports its transport by name, when it connects."""

PROGRAM = '''
import os, sys
from importlib import import_module

class OnlyInstalled:
    """Does not find the modules that are missing. Libraries also ask whether an optional one is there."""

    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in MISSING else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

MISSING = set(sys.argv[2].split(","))
for name in [name for name in sys.modules if name.partition(".")[0] in MISSING]:
    del sys.modules[name]
sys.meta_path[:] = [OnlyInstalled(finder) for finder in sys.meta_path if hasattr(finder, "find_spec")]
os.environ["DJANGO_SETTINGS_MODULE"] = "console.settings"
for name in sys.argv[1].split(","):
    import_module(name)
'''


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _installed_with(name: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> Iterator[str]:
    """Yield the distributions that pip installs for a distribution with these extras."""
    if (name, extras) in seen:
        return
    seen.add((name, extras))
    yield name
    try:
        requirements = OURS if name == "pyqmq" else metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return
    for requirement in map(Requirement, requirements):
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras | {""}):
            yield from _installed_with(_normalized(requirement.name), frozenset(requirement.extras), seen)


@pytest.mark.parametrize("extra", IMPORTS)
def test_an_extra_brings_what_its_processes_import(extra: str) -> None:
    installed = set(_installed_with("pyqmq", frozenset({extra}), set())) | {"pip", "setuptools"}
    missing = {
        module
        for module, distributions in metadata.packages_distributions().items()
        if not any(_normalized(name) in installed for name in distributions)
    }
    assert ("pytest" in missing) == (extra != "testing")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, ",".join(IMPORTS[extra]), ",".join(missing)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("extra", ["opentelemetry", "prometheus"])
def test_middleware_without_its_library_names_the_extra(extra: str) -> None:
    missing = {"opentelemetry": "opentelemetry", "prometheus": "prometheus_client"}[extra]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, f"qmq.middleware.{extra}", missing],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"ImportError: qmq.middleware.{extra} needs the package" in done.stderr
    assert f"pip install 'pyqmq[{extra}]'" in done.stderr


def test_the_django_application_without_django_names_the_extra() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "qmq.integrations.django", "django"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert (
        "ImportError: qmq.integrations.django needs the package Django. Install it with: pip install 'pyqmq[django]'"
        in done.stderr
    )
