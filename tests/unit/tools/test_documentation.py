"""What pages and examples name exists: settings, units, configurations, error codes, pictures, files, tests."""

import ast
import json
import re
import shlex
from configparser import ConfigParser
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings

from broker_node.options import BrokerOptions
from console.http.protocol import UVICORN_OPTIONS
from console.options import ConsoleOptions
from delay_node.options import DelayOptions
from metaserver.options import MetaOptions
from qmq.options import parse_options, variable_of
from tests.support.generated.error_codes import PASSED_ON, api_codes, codes_of_code
from tools.prose import PROJECT, markdown_pages

PAGES = {str(path.relative_to(PROJECT)): path.read_text() for path in markdown_pages(PROJECT)}
HOW_TO = {name: text for name, text in PAGES.items() if name.startswith(("README", "docs/how-to", "docs/tutorials"))}
BLOCKS = [
    (name, block)
    for name, text in HOW_TO.items()
    for block in re.findall(r"^ *```text\n(.*?)^ *```", text, re.S | re.M)
]
OPTIONS: dict[str, type[Any]] = {
    "broker": BrokerOptions,
    "delay": DelayOptions,
    "meta": MetaOptions,
    "": ConsoleOptions,
}
OF_TOOLS = {
    "QMQ_PRODUCER_OPTIONS",
    "QMQ_OUTBOX_TABLE",
    "QMQ_CONSOLE",
    "QMQ_TOKEN",
    "QMQ_URL",
    "QMQ_APP",
    "QMQ_DATABASE_PASSWORD",
}
"""Variables of the command line and of examples, and settings of the Django application."""
VARIABLES = {variable_of(item, process) for process, kind in OPTIONS.items() for item in fields(kind)} | OF_TOOLS
ARCHITECTURE = {name: text for name, text in PAGES.items() if name.startswith("docs/architecture")}
OF_EXAMPLES = {"shipping.py"}
"""Files that examples in the documentation write."""
PACKAGES = (
    "api", "benchmarks", "broker_node", "console", "delay_node", "metaserver", "qmq", "qmq_node", "qmq_testing",
    "spark_analytics", "tests", "tools",
)  # fmt: skip
UNITS = sorted((PROJECT / "deploy/systemd").glob("*.service"))
PICTURE_BYTES_MAX = 200_000


def _unit(path: Path) -> ConfigParser:
    unit = ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(path.read_text())
    return unit


@pytest.mark.parametrize("name", HOW_TO)
def test_settings_of_a_page_exist(name: str) -> None:
    assert set(re.findall(r"\bQMQ_[A-Z_]+[A-Z]\b(?!_)", HOW_TO[name])) <= VARIABLES


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_starts_a_process_with_options_that_it_has(path: Path) -> None:
    unit = _unit(path)
    assert {"Unit", "Service", "Install"} == set(unit.sections())
    command = shlex.split(unit["Service"]["ExecStart"].replace("%%", "%").replace("%i", "g1"))
    program, arguments = Path(command[0]).name, command[1:]
    if program == "python":
        module = arguments[1]
        process = {"broker_node": "broker", "delay_node": "delay", "metaserver": "meta"}[module]
        assert parse_options(OPTIONS[process], arguments[2:], {}, prog=module, process=process).data_dir.startswith(
            "/var/lib/qmq/"
        )
    elif program == "uvicorn":
        assert " ".join(UVICORN_OPTIONS) in " ".join(arguments)
    elif program == "celery":
        assert arguments[:2] == ["-A", "console.celery"]
        if arguments[2] == "worker":
            assert arguments[arguments.index("--queues") + 1] in settings.CELERY_TASK_QUEUES
    else:
        assert (program, arguments) == ("qmq-console", ["collect"])


def test_each_unit_is_on_the_page_that_enables_them() -> None:
    page = PAGES["docs/how-to/deploy-one-machine.md"]
    (enabled,) = re.findall(r"systemctl enable --now (.*?)\n```", page, re.S)
    names = {word.partition("@")[0] for word in enabled.replace("\\\n", " ").split()}
    assert names == {path.stem.rstrip("@") for path in UNITS}


def test_nodes_of_the_one_machine_have_ports_of_their_own() -> None:
    page = PAGES["docs/how-to/deploy-one-machine.md"]
    second = dict(re.findall(r"^(QMQ_BROKER_\w+)=(\d+)$", page, re.M))
    first, other = (
        parse_options(BrokerOptions, [], environment, prog="broker_node", process="broker")
        for environment in ({}, second)
    )
    ports = [port for node in (first, other, DelayOptions()) for port in (node.port, node.admin_port)]
    assert len(set(ports)) == 6
    assert all(str(port) in page for port in ports)


def test_broker_groups_of_the_one_machine_have_as_many_copies_as_members_that_its_units_start() -> None:
    page = PAGES["docs/how-to/deploy-one-machine.md"]
    started = re.findall(r"qmq-broker@(\w+)", re.findall(r"systemctl enable --now (.*?)\n```", page, re.S)[0])
    members = {started.count(group) for group in started}
    environment = dict(re.findall(r"^(QMQ_META_\w+)=(.+)$", page, re.M)) | {"QMQ_META_DATABASE_URL": ""}
    assert members == {parse_options(MetaOptions, [], environment, prog="metaserver", process="meta").copies}


def test_configurations_of_other_programs_can_be_parsed() -> None:
    (prometheus,) = (block for _, block in BLOCKS if "scrape_configs" in block)
    jobs = yaml.safe_load(prometheus)["scrape_configs"]
    assert all(job["static_configs"][0]["targets"] and job["job_name"] for job in jobs)
    (nginx,) = (block for _, block in BLOCKS if "proxy_pass" in block)
    lines = [line.strip() for line in nginx.strip().splitlines()]
    assert lines[0] == "location / {"
    assert lines[-1] == "}"
    assert all(re.fullmatch(r"[a-z_]+ .+;", line) for line in lines[1:-1])


def test_documented_error_codes_exist() -> None:
    codes, endings = codes_of_code()
    codes |= set().union(*api_codes().values())
    documented = {
        code
        for page in ("docs/reference/errors.md", "docs/how-to/troubleshooting.md")
        for row in re.findall(r"^\|.*\|$", PAGES[page], re.M)
        for code in re.findall(r"`([a-z_]+\.[a-z_]+)`", row)
    }
    assert len(documented) > 50
    missing = {code for code in documented - codes if f".{code.partition('.')[2]}" not in endings}
    assert not missing


def test_each_problem_of_the_api_has_a_chinese_sentence() -> None:
    texts = json.loads((PROJECT / "frontend/src/i18n/zh/problems.json").read_text())
    found = {f"{kind}.{name}" for kind, sentences in texts.items() for name in sentences}
    # Those of the pages themselves: no answer came, or none of the API.
    found = {code for code in found if not code.startswith("console.")}
    assert found == set().union(*api_codes().values()) | PASSED_ON
    assert codes_of_code()[0] >= PASSED_ON


def test_pictures_are_shown_described_and_small() -> None:
    shown = {
        (PROJECT / name).parent.joinpath(target).resolve(): text
        for name, page in PAGES.items()
        for text, target in re.findall(r"!\[([^\]]*)\]\(([^)\s]+)\)", page)
    }
    assert set(shown) == set((PROJECT / "docs/images").iterdir())
    assert all(len(text) > 20 for text in shown.values())
    assert max(path.stat().st_size for path in shown) < PICTURE_BYTES_MAX


def _missing_tests(project: Path, text: str) -> list[str]:
    """Return the tests that a text names as `path::function` and that do not exist in the project."""
    missing = []
    for path, function in re.findall(r"`(tests/[^`:]+)::([^`]*)`", text):
        file = project / path
        tree = ast.parse(file.read_text() if file.is_file() else "")
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        if not function.startswith("test_") or function not in names:
            missing.append(f"{path}::{function}")
    return missing


def _unproved(text: str) -> list[str]:
    """Return the rows of tables of promises that name no test."""
    tables = re.findall(r"^\| Promise \| Proof \|\n\|[-|]+\|\n((?:\|.*\|\n?)+)", text, re.M)
    return [row for table in tables for row in table.splitlines() if not re.search(r"`tests/[^`]+::[^`]+`", row)]


@pytest.mark.parametrize("name", PAGES)
def test_tests_that_a_page_names_exist(name: str) -> None:
    assert not _missing_tests(PROJECT, PAGES[name])


@pytest.mark.parametrize("name", ARCHITECTURE)
def test_each_promise_of_the_architecture_names_a_test(name: str) -> None:
    page = ARCHITECTURE[name]
    assert not _unproved(page)
    assert "| Promise | Proof |" in page or name == "docs/architecture/decisions.md"


def _missing_files(project: Path, text: str) -> set[str]:
    """Return the folders and modules of packages that a text names, with or without their folder, and that do not exist."""
    named = set(re.findall(r"`((?:\w+/)*\w+(?:/|\.py)?)`", text))
    known = {path.name for package in PACKAGES for path in (project / package).rglob("*.py")}
    of_packages = {name for name in named if "/" in name and name.partition("/")[0] in PACKAGES}
    bare = {name for name in named if "/" not in name and name.endswith(".py")}
    return {name for name in of_packages if not (project / name).exists()} | bare - known


@pytest.mark.parametrize("name", PAGES)
def test_files_that_a_page_names_exist(name: str) -> None:
    assert not _missing_files(PROJECT, PAGES[name]) - OF_EXAMPLES


def test_a_wrong_name_of_a_test_and_a_promise_without_one_are_found(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text("async def test_a() -> None: ...\n\n\ndef helper() -> None: ...\n")
    names = ["tests/test_a.py::test_a", "tests/test_a.py::test_b", "tests/test_b.py::test_a", "tests/test_a.py::helper"]
    assert _missing_tests(tmp_path, ", ".join(f"`{name}`" for name in names)) == names[1:]
    rows = ["| A promise | `tests/test_a.py::test_a` |", "| Another | see below |"]
    assert (
        _unproved("\n".join(["| Promise | Proof |", "|---|---|", *rows, "", "| A | B |", "|---|---|", "| 1 | 2 |"]))
        == rows[1:]
    )


def test_wrong_names_of_files_are_found(tmp_path: Path) -> None:
    (tmp_path / "qmq_node/log").mkdir(parents=True)
    (tmp_path / "qmq_node/log/disk.py").touch()
    right = "`qmq_node/log`, `qmq_node/log/`, `qmq_node/log/disk.py`, `disk.py`, `schedule/`"
    assert not _missing_files(tmp_path, right)
    wrong = {"qmq_node/logs", "qmq_node/log/file.py", "file.py"}
    assert _missing_files(tmp_path, ", ".join(f"`{name}`" for name in wrong)) == wrong
