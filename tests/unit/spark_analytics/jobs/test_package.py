"""The zip for executors: all they run, nothing that only a driver can."""

import subprocess
import sys
import zipfile
from pathlib import Path

from spark_analytics.jobs.package import NAME, write_package


def test_it_holds_what_executors_run_and_is_the_same_each_time(tmp_path: Path) -> None:
    path = write_package(tmp_path / "new")
    assert path == tmp_path / "new" / NAME
    names = set(zipfile.ZipFile(path).namelist())
    assert {"qmq/__init__.py", "spark_analytics/source/node_reader.py", "spark_analytics/transforms/lag.py"} <= names
    assert not [name for name in names if name.startswith(("console", "metaserver", "api", "broker_node"))]
    first = path.read_bytes()
    assert write_package(tmp_path / "new").read_bytes() == first
    assert [found.name for found in (tmp_path / "new").iterdir()] == [NAME]


def test_code_is_imported_from_it_alone(tmp_path: Path) -> None:
    path = write_package(tmp_path)
    module = "spark_analytics.source.node_reader"
    program = f"import sys; sys.path.insert(0, {str(path)!r}); import {module} as found; print(found.__file__)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(str(path))
