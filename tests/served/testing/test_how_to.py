"""The programs of the how-to page run as tests, as they are written."""

import re

from tests.served.testing.pages import PAGE
from tests.served.testing.runs import RunTests

pytest_plugins = ["pytester"]

BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M)


def test_every_program_of_the_page_passes(run_tests: RunTests) -> None:
    files = {f"test_block_{number}": block for number, block in enumerate(BLOCKS)}
    expected = sum(len(re.findall(r"^(?:async )?def test_", block, re.M)) for block in BLOCKS)
    assert expected >= 8
    run_tests(files).assert_outcomes(passed=expected)


def test_the_page_names_methods_and_settings_that_exist() -> None:
    from qmq_testing import Server, ServerSettings

    table = PAGE.partition("| `qmq_server.` |")[2].partition("\n\n")[0]
    names = set(re.findall(r"`(\w+)(?:\([^`]*\))?`(?=[^|]*\|[^|]*\|$)", table, re.M))
    assert {"messages", "lag", "is_drained", "stop_broker", "url"} <= names
    assert {name for name in names if name not in ("due_at", "count")} <= set(dir(Server))
    settings = PAGE.partition("| `ServerSettings(...)` |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", settings, re.M) == list(ServerSettings.__dataclass_fields__)
