"""One system and one Chromium for all tests of this folder; each test has visits of its own, which must go without a fault."""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.served.e2e.furniture import Furniture, furnish
from tests.served.e2e.visits import TOTP_SECRET, Visits
from tests.support.console.browser import WAIT_SECONDS, BrowserMissing, Visit, chromium
from tests.support.disks.faulty_disks import MODULE, Disks
from tests.support.promises import PromiseBroken
from tests.support.required import missing
from tests.support.servers.services import named_databases
from tests.support.servers.shared import NewSystems
from tests.support.servers.system import WHOLE, Person, System
from tests.support.waiting import ASK_SECONDS, eventually

PEOPLE = (
    Person("ada", "admin"),
    Person("olga", "operator", ("orders",)),
    Person("vera", "viewer"),
    Person("tom", "operator", ("orders",), totp_secret=TOTP_SECRET),
    Person("ling", "viewer", language="zh"),
    Person("faye", "viewer"),
)

expect.set_options(timeout=WAIT_SECONDS * 1000)


# Of the package and not of the session: a running Chromium leaves no room for tests of other folders that are coroutines.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A started Chromium; without one tests are skipped, or fail where everything has to be there and in CI."""
    try:
        with chromium() as found:
            yield found
    except BrowserMissing as error:
        missing(str(error), is_required=bool(named_databases()))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """A test that went well still fails for what went wrong in its pages; of a failed one the pages are kept."""
    visits: Visits | None = pyfuncitem.funcargs.get("new_visit")
    try:
        result = yield
        wrong = [line for one in visits.made for line in one.problems()] if visits is not None else []
        if wrong:
            pytest.fail("\n".join(("in the browser:", *wrong)), pytrace=False)
    except BaseException as error:
        if visits is not None:
            for number, one in enumerate(visits.made):
                folder = pyfuncitem.funcargs["tmp_path"] / f"visit{number}"
                one.save(folder)
                pyfuncitem.add_report_section("call", "browser", f"{folder}\n{(folder / 'console.log').read_text()}")
            server_errors = [line for one in visits.made for line in one.server_errors]
            if server_errors and not isinstance(error, KeyboardInterrupt):
                raise PromiseBroken("\n".join(("in the browser:", *server_errors))) from error
        raise
    return result


@pytest.fixture(scope="package")
def _console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    settings = {"QMQ_OUTBOX_SQLITE_FOLDER": str(tmp_path_factory.mktemp("databases"))}
    with NewSystems(tmp_path_factory.mktemp("console")) as create:
        found = create(people=PEOPLE, settings=settings, broker_module=MODULE, **WHOLE)
        yield found


@pytest.fixture(scope="package")
def disks(_console: System) -> Disks:
    """Disks of brokers that tests let hang."""
    return Disks(_console)


@pytest.fixture(scope="package")
def console(_console: System, disks: Disks) -> System:
    """A whole system with PEOPLE; a test that breaks a part puts it right."""
    _console.start()
    return _console


@pytest.fixture(scope="package")
def furniture(console: System) -> Furniture:
    """Something of each kind, for tests that only look."""
    return furnish(console)


def _is_measured(console: System) -> bool:
    known = console.get("/overview/")["known"]
    return known is not None and not known["missing"]


@pytest.fixture
def whole_again(console: System) -> Iterator[None]:
    """Start what a test stopped: other tests use the same brokers."""
    yield
    for broker in console.brokers.values():
        if not broker.is_running:
            broker.start()
    eventually(
        lambda: set(console.group_states()) == {"read_write"} and _is_measured(console),
        what="all broker groups accept messages and are measured again", every_s=ASK_SECONDS,
    )  # fmt: skip


@pytest.fixture
def new_visit(browser: Browser, console: System, tmp_path: Path) -> Iterator[Callable[..., Visit]]:
    """Make visits: `new_visit(PHONE, user="olga")`. A fault in any of them fails the test."""
    visits = Visits(browser, console.url)
    yield visits
    visits.close()
