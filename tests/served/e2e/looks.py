"""The four ways in which a story is looked at: both languages, desktop and phone."""

from dataclasses import replace

import pytest
from _pytest.mark import ParameterSet

from tests.support.console.browser import DESKTOP, PHONE
from tests.support.whole import in_whole_story_runs

EN_DESKTOP = pytest.param(DESKTOP, id="en-desktop")
ZH_DESKTOP = pytest.param(replace(DESKTOP, locale="zh-CN"), id="zh-desktop")
EN_PHONE = pytest.param(PHONE, id="en-phone")
ZH_PHONE = pytest.param(replace(PHONE, locale="zh-CN"), id="zh-phone")
LOOKS = [EN_DESKTOP, ZH_DESKTOP, EN_PHONE, ZH_PHONE]


def _in_whole_runs(*looks: ParameterSet) -> list[ParameterSet]:
    return [pytest.param(*one.values, id=one.id, marks=in_whole_story_runs) for one in looks]


MOSTLY_TWO = [EN_DESKTOP, ZH_PHONE, *_in_whole_runs(ZH_DESKTOP, EN_PHONE)]
"""What differs in language and size at once; the other two in `make e2e`."""
MOSTLY_ONE = [EN_DESKTOP, *_in_whole_runs(ZH_DESKTOP, EN_PHONE, ZH_PHONE)]
"""For stories that need a system of their own or wait for nodes; the other three in `make e2e`."""


def name_of(request: pytest.FixtureRequest) -> str:
    """The name of a test's look, for subjects and users of its own."""
    found: str = request.node.callspec.id
    return found
