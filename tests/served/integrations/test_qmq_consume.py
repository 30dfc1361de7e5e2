"""`manage.py qmq_consume` of a small Django project against real nodes: signals, reload, choice of apps, database connections."""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from qmq.protocol.messages import KEY_ATTEMPT, KEY_MAX_RETRY
from qmq.sync import Producer
from tests.served.integrations.programs import Program, run, running
from tests.support.load.nonsense import CREATED, entry, nonsense, send_entries
from tests.support.servers.system import System
from tests.support.waiting import eventually

MANAGE = """
import sys
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""
SETTINGS = """
import os
from pathlib import Path
SECRET_KEY = "a key for tests only"
DEBUG = False
USE_TZ = True
INSTALLED_APPS = ["qmq.integrations.django", "jobs"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": Path(__file__).parent / "db.sqlite3"}}
QMQ_URL = os.environ["QMQ_META"]
"""
CONSUMERS = """
import asyncio, time
from pathlib import Path
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection
import qmq
from qmq import sync

HERE = Path(__file__).parent
VERSION = 1
blocking = sync.App(settings.QMQ_URL)
coroutines = qmq.App(settings.QMQ_URL)

def write(text):
    with open(HERE / "log", "a") as log:
        log.write(text + "\\n")

@blocking.consumer("{prefix}.blocking", group="g", start="earliest")
def block(delivery):
    write(f"begin blocking v{{VERSION}}")
    while not (HERE / "release").exists():
        time.sleep(0.01)
    write("end blocking")

def query_and_break():
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    connection.connection.close()
    connection.errors_occurred = True  # as Django sets it when a query fails

@blocking.consumer("{prefix}.query", group="g", concurrency=1, start="earliest")
def query(delivery):
    query_and_break()
    write("query")

@coroutines.consumer("{prefix}.coroutine-query", group="g", concurrency=1, start="earliest")
async def coroutine_query(delivery):
    await sync_to_async(query_and_break)()
    write("coroutine query")

@coroutines.consumer("{prefix}.coroutine", group="g", start="earliest")
async def work(delivery):
    write("begin coroutine")
    while not (HERE / "release").exists():
        await asyncio.sleep(0.01)
    write("end coroutine")

async def read(delivery):
    write(delivery.message_id + " " + str(delivery.created_at.year))
    if delivery.message_id.startswith("bad") and delivery.message_id not in failed:
        failed.add(delivery.message_id)
        raise RuntimeError(delivery.attempt)

failed = set()
coroutines.consumer("{prefix}.nonsense", group="g", concurrency=1, start="earliest", attempts_max=1)(read)
"""


class Project:
    """A Django project in a folder of its own, with consumers that work until the file `release` is there."""

    def __init__(self, folder: Path, system: System) -> None:
        self.folder = folder / "project"
        self.jobs = self.folder / "jobs"
        self.jobs.mkdir(parents=True)
        (self.folder / "manage.py").write_text(MANAGE)
        (self.folder / "settings.py").write_text(SETTINGS)
        (self.jobs / "__init__.py").touch()
        self.prefix = f"jobs-{abs(hash(str(folder)))}"
        (self.jobs / "consumers.py").write_text(CONSUMERS.format(prefix=self.prefix))
        self.system = system
        self.environment = {"QMQ_META": system.meta_url, "DJANGO_SETTINGS_MODULE": "settings"}

    def consume(self, *arguments: str) -> AbstractContextManager[Program]:
        return running(
            self.folder, "consume", "manage.py", "qmq_consume", *arguments, cwd=self.folder, **self.environment
        )

    def failing(self, *arguments: str, **environment: str) -> str:
        """The output of a command that ends with code 1."""
        code, output = run(
            self.folder,
            "fails",
            "manage.py",
            "qmq_consume",
            *arguments,
            cwd=self.folder,
            **{**self.environment, **environment},
        )
        assert code == 1, output
        return output

    def send(self, *kinds: str) -> None:
        with Producer(self.system.meta_url) as producer:
            for kind in kinds:
                producer.send(f"{self.prefix}.{kind}", "text")

    def release(self) -> None:
        (self.jobs / "release").touch()

    @property
    def log(self) -> list[str]:
        path = self.jobs / "log"
        return path.read_text().splitlines() if path.exists() else []

    def wait_for(self, lines: Sequence[str]) -> None:
        eventually(lambda: set(lines) <= set(self.log), what=f"{lines} in the log")

    def not_acked(self, kind: str) -> int:
        """Messages of the subject that its group has not acknowledged, and those of its retry subject."""
        subject = f"{self.prefix}.{kind}"
        lag = sum(group["lag"] for stats in self._stats(subject) for group in stats["groups"])
        return lag + sum(stats["end_sequence"] for stats in self._stats(f"%RETRY%{subject}%g"))

    def _stats(self, subject: str) -> list[dict[str, Any]]:
        pages = [self.system.admin(name, f"/stats?subject={quote(subject)}") for name in self.system.brokers]
        return [stats for page in pages for stats in page["subjects"]]


@pytest.fixture
def project(tmp_path: Path, system: System) -> Project:
    return Project(tmp_path, system)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_handlers_finish_and_their_messages_are_acked(project: Project, number: signal.Signals) -> None:
    project.send("blocking", "coroutine")
    with project.consume() as program:
        project.wait_for(["begin blocking v1", "begin coroutine"])
        program.process.send_signal(number)
        program.wait_for("stopping: running handlers finish")
        project.release()
        assert program.process.wait(60) == 0, program.output
        assert "Traceback" not in program.output
    assert sorted(project.log) == ["begin blocking v1", "begin coroutine", "end blocking", "end coroutine"]
    assert [project.not_acked(kind) for kind in ("blocking", "coroutine")] == [0, 0]


def test_a_second_signal_ends_the_process_at_once(project: Project) -> None:
    project.send("blocking")
    with project.consume() as program:
        project.wait_for(["begin blocking v1"])
        program.process.send_signal(signal.SIGTERM)
        program.wait_for("stopping")
        assert program.stop() == -signal.SIGTERM
    assert project.log == ["begin blocking v1"]
    assert project.not_acked("blocking") == 1


def test_a_handler_that_never_returns_does_not_keep_the_process_alive_after_a_signal(project: Project) -> None:
    project.send("blocking")
    with project.consume() as program:
        project.wait_for(["begin blocking v1"])
        program.process.send_signal(signal.SIGTERM)
        assert program.process.wait() == 0, program.output
    assert project.log == ["begin blocking v1"]


def test_a_changed_file_restarts_the_worker_after_its_handlers(project: Project) -> None:
    project.send("blocking")
    with project.consume("--reload") as program:
        project.wait_for(["begin blocking v1"])
        path = project.jobs / "consumers.py"
        path.write_text(path.read_text().replace("VERSION = 1", "VERSION = 2"))

        def is_noticed() -> bool:
            # A change before the reloader's first look at the file is not noticed.
            path.touch()
            return "stopping: running handlers finish" in program.output

        eventually(is_noticed, what="the reloader noticed the change", every_s=0.5)
        project.release()
        project.wait_for(["end blocking"])
        project.send("blocking")
        project.wait_for(["begin blocking v2"])
        assert project.log[:2] == ["begin blocking v1", "end blocking"]
        project.send("coroutine")
        project.wait_for(["end coroutine"])
        eventually(lambda: project.not_acked("blocking") + project.not_acked("coroutine") == 0, what="all are acked")
        program.stop(signal.SIGINT, group=True)


def test_messages_with_nonsense_in_reserved_properties_end_no_worker(project: Project) -> None:
    project.send("nonsense")  # places the subject
    bad = nonsense(f"{project.prefix}.nonsense")
    good = [entry(f"{project.prefix}.nonsense", b"good%d" % number, CREATED) for number in range(20)]
    asyncio.run(send_entries(project.system, [*(one.entry for one in bad), *good]))
    delivered = {one.message_id for one in bad if one.is_delivered}
    # These have another attempt, all others become dead letters with their first failure.
    handled = {f"bad-{KEY_ATTEMPT}-0", f"bad-{KEY_MAX_RETRY}-2^31 - 1"}
    with project.consume() as program:
        expected = delivered | {f"good{number}" for number in range(20)}
        eventually(lambda: {line.rpartition(" ")[0] for line in project.log} >= expected, what="all are delivered")
        eventually(lambda: sum(line.startswith(f"{name} ") for name in handled for line in project.log) == 4)
        dead = f"%DEAD_RETRY%{project.prefix}.nonsense%g"
        others = len(delivered) - len(handled)
        eventually(lambda: sum(stats["end_sequence"] for stats in project._stats(dead)) >= others, what="dead letters")
        assert program.stop() == 0, program.output


@pytest.mark.parametrize(("kind", "line"), [("query", "query"), ("coroutine-query", "coroutine query")])
def test_handlers_get_a_new_connection_after_one_that_broke(project: Project, kind: str, line: str) -> None:
    project.send(*[kind] * 3)
    with project.consume() as program:
        eventually(lambda: project.log.count(line) == 3, what="three messages are handled")
        assert program.stop() == 0
        assert "failed" not in program.output


def test_apps_and_concurrency_are_chosen_by_arguments(project: Project) -> None:
    project.send("blocking", "blocking", "coroutine")
    with project.consume("jobs.consumers", "--app", "blocking", "--concurrency", "1") as program:
        project.wait_for(["begin blocking v1"])
        program.process.send_signal(signal.SIGTERM)
        program.wait_for("stopping")
        project.release()
        assert program.process.wait(60) == 0
        assert "consuming with jobs.consumers.blocking; Ctrl-C stops" in program.output
    assert project.log[:2] == ["begin blocking v1", "end blocking"], "one at a time"
    assert "begin coroutine" not in project.log


def test_wrong_arguments_end_with_one_line(project: Project) -> None:
    assert "CommandError: no module 'jobs.wrong'" in project.failing("jobs.wrong")
    assert "no qmq.App or qmq.sync.App object named 'wrong' in jobs.consumers" in project.failing("--app", "wrong")
    assert "--concurrency: concurrency=0: must be 1 to 10000" in project.failing("--concurrency", "0")
    (project.jobs / "consumers.py").unlink()
    assert "no installed app has a module 'consumers'" in project.failing()


def test_an_app_that_fails_ends_the_process_with_code_1(project: Project) -> None:
    path = project.jobs / "consumers.py"
    path.write_text(
        path.read_text() + '\ncoroutines.consumer("other", group="g")(work)\nblocking.run = lambda: 1 / 0\n'
    )
    assert "ZeroDivisionError" in project.failing()
