"""/me/: everything a page needs once, and one's own choices. What may be asked before signing in says nothing else."""

from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

import qmq
from api.downloads import ROWS_MAX
from api.pagination import PAGE_MAX
from console.accounts.preferences import DEFAULTS
from console.accounts.roles import Role, Scope
from metaserver import queries
from tests.support.console.people import browser, machine, person

pytestmark = pytest.mark.django_db
ME = "/api/v1/me/"


@pytest.fixture
def me(db: None) -> APIClient:
    return browser(person("vera", Role.VIEWER))


def test_pages_get_all_they_need_at_once(me: APIClient, settings: Any) -> None:
    found = me.get(ME).json()
    assert found["preferences"] == {"theme": "system", "time_zone": "local", "favourite_subjects": []} == DEFAULTS
    assert (found["demands_second_factor"], found["lacks_second_factor"]) == (False, False)
    console = found["console"]
    assert (console["version"], console["languages"], console["single_sign_on"]) == (
        qmq.__version__,
        ["en", "zh"],
        None,
    )
    assert console["limits"]["page_rows"] == PAGE_MAX
    assert console["limits"]["download_rows"] == ROWS_MAX
    assert console["limits"]["body_bytes"] == settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    settings.META_URL = "http://a:1/meta/address,http://b:2/meta/address"
    assert me.get(ME).json()["console"]["metaserver"] == "a:1,b:2"
    settings.MFA_REQUIRED = "all"
    found = me.get(ME).json()
    assert (found["demands_second_factor"], found["lacks_second_factor"]) == (True, True)
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [{"name": "Example", "secret": "hidden"}]}}
    answer = me.get(ME)
    assert answer.json()["console"]["single_sign_on"] == "Example"
    assert b"hidden" not in answer.content


@pytest.mark.database
def test_choices_are_kept_one_by_one_and_audited(me: APIClient) -> None:
    assert me.patch(ME, {"preferences": {"theme": "dark"}}).status_code == 200
    assert me.patch(ME, {"preferences": {"time_zone": "Asia/Shanghai"}, "language": "zh"}).status_code == 200
    found = me.get(ME).json()
    assert found["preferences"] == {"theme": "dark", "time_zone": "Asia/Shanghai", "favourite_subjects": []}
    assert found["language"] == "zh"
    entry = queries.audit_entries().filter(action="user.update").first()
    assert entry is not None
    assert entry.after["preferences"] == {"theme": "dark", "time_zone": "Asia/Shanghai"}, "what was chosen"
    before = found["version"]
    assert (
        me.patch(f"{ME}?dry_run=true", {"preferences": {"theme": "light"}}).json()["after"]["preferences"]["theme"]
        == "light"
    )
    assert me.get(ME).json()["version"] == before
    assert me.patch(ME, {"preferences": {"theme": "light"}}, HTTP_IF_MATCH='"v1"').status_code == 412


@pytest.mark.parametrize(
    "body",
    [
        {"preferences": {"favourite_subjects": ["x"] * 101}}, {"preferences": {"favourite_subjects": "x"}},
        {"preferences": {"theme": "pink"}}, {"preferences": {"time_zone": "../x"}}, {"preferences": {"time_zone": "x" * 93}},
        {"preferences": {"time_zone": 5}}, {"preferences": []}, {"preferences": "dark"}, {"preferences": None},
        {"language": "xx"},
    ],
)  # fmt: skip
def test_other_choices_are_refused(me: APIClient, body: dict[str, Any]) -> None:
    answer = me.patch(ME, body)
    assert (answer.status_code, answer.json()["code"]) == (400, "request.invalid")
    assert me.get(ME).json()["preferences"] == DEFAULTS


def test_a_token_has_no_account_page(me: APIClient) -> None:
    owner = person("root", Role.ADMIN)
    assert machine(owner, Scope.ADMIN).get(ME).status_code == 403


def test_before_signing_in_only_the_doors_are_told(db: None, settings: Any) -> None:
    """The sign-in page reads the name of single sign-on here."""
    app = {
        "provider_id": "sso", "name": "Example", "client_id": "qmq", "secret": "hidden",
        "settings": {"server_url": "https://id.example"},
    }  # fmt: skip
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [app]}}
    answer = Client().get("/_allauth/browser/v1/config")
    (provider,) = answer.json()["data"]["socialaccount"]["providers"]
    assert (provider["id"], provider["name"]) == ("sso", "Example")
    assert b"hidden" not in answer.content
    assert qmq.__version__.encode() not in answer.content
    assert Client().get(ME).status_code == 401
