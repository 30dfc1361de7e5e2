"""A wheel made where the pages are built has them in it, and what serves them."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.served.frontend.builds import put_build
from tests.support.servers.processes import PROJECT

BUILD = "from setuptools import build_meta; import sys; build_meta.build_wheel(sys.argv[1])"


def test_a_wheel_brings_the_pages_along(tmp_path: Path) -> None:
    project = tmp_path / "project"
    tracked = subprocess.run(["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    for name in tracked.splitlines():
        if name.startswith(("qmq/", "console/", "api/", "metaserver/", "tests/")) or "/" not in name:
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (PROJECT / name).is_dir() else shutil.copy  # console/docs is a link
            copy(PROJECT / name, project / name)
    put_build(project / "console/dist")
    subprocess.run(
        [sys.executable, "-c", BUILD, str(tmp_path)], cwd=project, capture_output=True, timeout=120, check=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "console/dist/index.html", "console/dist/favicon.svg", "console/dist/assets/main-Ab12Cd34.js",
        "console/dist/assets/main-Ab12Cd34.js.gz", "console/dist/assets/main-Ab12Cd34.js.br",
    } <= names  # fmt: skip
    assert {
        "console/manage.py",
        "console/migrations/0001_initial.py",
        "api/urls.py",
        "api/openapi.yaml",
        "console/docs/index.md",
        "console/docs/images/overview.png",
        "qmq/py.typed",
    } <= names
    assert not {name for name in names if name.startswith(("tests/", "tools/", "frontend/", "manage.py"))}
    script = next(name for name in names if name.endswith("entry_points.txt"))
    assert "qmq-console = console.manage:main" in zipfile.ZipFile(wheel).read(script).decode()
