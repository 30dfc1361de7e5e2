"""Pages that are made from the code are up to date; words and links of all pages are as `make lint` wants them."""

import pytest

from tests.support.generated.reference import PAGES
from tests.support.servers.processes import PROJECT


@pytest.mark.parametrize("path", PAGES)
def test_a_generated_page_is_up_to_date(path: str) -> None:
    text = (PROJECT / path).read_text()
    assert text == PAGES[path](), f"{path} is outdated: python -m tests.support.generated.reference writes it"
