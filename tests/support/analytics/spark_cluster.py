"""A standalone Spark cluster on this machine: one master and two workers, from the classes of the pyspark package."""

import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark

from spark_analytics.java import java_home
from tests.support.servers.ports import free_port
from tests.support.servers.processes import Process, get_json
from tests.support.waiting import eventually

SPARK_HOME = Path(pyspark.__file__).parent
WORKERS = 2


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where it is, and what a driver's process needs in its environment."""

    url: str
    page: str
    environment: dict[str, str]

    def state(self) -> Any:
        """What the master says of its workers and applications."""
        return get_json(f"{self.page}/json/")


def bare_python(folder: Path) -> Path:
    """A Python with the installed packages, without this project: what executors elsewhere have.

    A checkout that is installed for development is found by a .pth file, which Python reads in site folders only; so this one has
    no site folder, and the packages' folder on its path instead.
    """
    path = folder / "python"
    packages = sysconfig.get_paths()["purelib"]
    path.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n')
    path.chmod(0o755)
    return path


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster whose workers have one core and no code of ours; stopped afterwards."""
    home = java_home()
    environment = {
        "SPARK_HOME": str(SPARK_HOME),
        "PYSPARK_PYTHON": str(bare_python(folder)),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": "",
        **({"JAVA_HOME": str(home)} if home is not None else {}),
    }
    port, page = free_port(), free_port()
    started: list[Process] = []

    def start(name: str, page_port: int, *arguments: str) -> None:
        program = [
            str(SPARK_HOME / "bin/spark-class"),
            *arguments,
            "--host",
            "127.0.0.1",
            "--webui-port",
            str(page_port),
        ]
        work = folder / name
        work.mkdir()
        settings = {**environment, "SPARK_WORKER_DIR": str(work), "SPARK_DAEMON_MEMORY": "256m"}
        process = Process(name, program, folder, f"http://127.0.0.1:{page_port}/", settings)
        started.append(process)
        process.start(wait=False)

    try:
        start("master", page, "org.apache.spark.deploy.master.Master", "--port", str(port))
        started[0].wait_ready()
        url = f"spark://127.0.0.1:{port}"
        for number in range(WORKERS):
            worker = ("org.apache.spark.deploy.worker.Worker", url, "--cores", "1", "--memory", "2g")
            start(f"worker{number}", free_port(), *worker)
        found = Cluster(url, f"http://127.0.0.1:{page}", {**os.environ, **environment})
        eventually(lambda: found.state()["aliveworkers"] == WORKERS, what="both workers are there")
        yield found
    finally:
        for process in reversed(started):
            process.stop()
