"""The four ways in which a story is looked at: both languages, desktop and phone."""

from dataclasses import replace

import pytest

from tests.support.console.browser import DESKTOP, PHONE
from tests.support.whole import in_whole_story_runs

EN_DESKTOP = pytest.param(DESKTOP, id="en-desktop")
ZH_DESKTOP = pytest.param(replace(DESKTOP, locale="zh-CN"), id="zh-desktop")
EN_PHONE = pytest.param(PHONE, id="en-phone")
ZH_PHONE = pytest.param(replace(PHONE, locale="zh-CN"), id="zh-phone")
LOOKS = [EN_DESKTOP, ZH_DESKTOP, EN_PHONE, ZH_PHONE]
MOSTLY_TWO = [
    EN_DESKTOP,
    ZH_PHONE,
    *(pytest.param(*one.values, id=one.id, marks=in_whole_story_runs) for one in (ZH_DESKTOP, EN_PHONE)),
]
"""What differs in language and size at once; the other two in `make e2e`."""


def name_of(request: pytest.FixtureRequest) -> str:
    """The name of a test's look, for subjects and users of its own."""
    found: str = request.node.callspec.id
    return found
