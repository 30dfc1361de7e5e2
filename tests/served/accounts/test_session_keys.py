"""Session keys are in the database as digests: a copy of it signs nobody in (F-3)."""

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.contrib.sessions.models import Session
from django.test import Client
from rest_framework.test import APIClient

from console.accounts.roles import Role
from console.accounts.session_store import SessionStore, digest
from console.live.access import Credential, find
from tests.support.console.people import Page, browser, person

pytestmark = pytest.mark.django_db
ME = "/api/v1/me/"


def key_of(client: Client) -> str:
    return str(client.cookies[settings.SESSION_COOKIE_NAME].value)


def with_cookie(key: str) -> APIClient:
    client = APIClient(raise_request_exception=False)
    client.cookies[settings.SESSION_COOKIE_NAME] = key
    return client


@pytest.mark.database
def test_no_row_of_the_database_is_a_cookie() -> None:
    person("ada", Role.ADMIN)
    page = Page()
    assert page.sign_in().status_code == 200
    key = key_of(page.client)
    assert with_cookie(key).get(ME).status_code == 200
    (row,) = Session.objects.all()
    assert row.session_key == digest(key)
    assert key not in f"{row.session_key} {row.session_data} {row.get_decoded()}"
    assert with_cookie(row.session_key).get(ME).status_code == 401
    assert find(Credential(session_key=row.session_key)) is None, "nor does it open a websocket"
    visitor = find(Credential(session_key=key))
    assert visitor is not None
    assert visitor.username == "ada"


def test_a_row_of_an_earlier_version_is_no_session() -> None:
    client = browser(person("ada"))
    key = key_of(client)
    row = Session.objects.get()
    Session.objects.create(session_key=key, session_data=row.session_data, expire_date=row.expire_date)
    row.delete()
    assert with_cookie(key).get(ME).status_code == 401


def test_a_session_keeps_its_key_while_it_is_used_and_gets_a_new_one_at_each_sign_in() -> None:
    person("ada")
    page = Page()
    keys = []
    for _ in range(2):
        assert page.sign_in().status_code == 200
        keys.append(key_of(page.client))
        assert page.ask("GET", ME).status_code == 200
        assert key_of(page.client) == keys[-1]
        assert page.ask("DELETE", "auth/session").status_code == 401, "as allauth answers a sign-out"
        assert with_cookie(keys[-1]).get(ME).status_code == 401
    assert len(set(keys)) == 2
    assert not Session.objects.exists()


def test_a_foreign_key_is_not_taken_over() -> None:
    person("ada")
    page = Page()
    chosen = "attackerschosenkey1234567890abcd"
    page.client.cookies[settings.SESSION_COOKIE_NAME] = chosen
    assert page.sign_in().status_code == 200
    assert key_of(page.client) != chosen
    assert not Session.objects.filter(session_key__in=(chosen, digest(chosen))).exists()


@pytest.mark.database
def test_the_store_does_what_djangos_does() -> None:
    store = SessionStore()
    store["a"] = 1
    store.create()
    key = store.session_key
    assert key is not None
    assert SessionStore(key)["a"] == 1
    assert (store.exists(key), store.exists(digest(key)), store.exists("nothing")) == (True, False, False)
    again = SessionStore(key)
    again["a"] = 2
    again.save()
    assert SessionStore(key)["a"] == 2
    again.cycle_key()
    assert again.session_key not in (None, key)
    assert (store.exists(key), SessionStore(again.session_key)["a"]) == (False, 2)
    again.delete("nothing")
    again.flush()
    assert Session.objects.count() == 0


@pytest.mark.database
def test_the_store_does_the_same_for_coroutines() -> None:
    async def use() -> None:
        store = SessionStore()
        await store.aset("a", 1)
        await store.asave()
        key = store.session_key
        assert key is not None
        assert await SessionStore(key).aget("a") == 1
        assert (await store.aexists(key), await store.aexists(digest(key))) == (True, False)
        await store.acycle_key()
        assert not await store.aexists(key)
        await store.adelete()
        assert await Session.objects.acount() == 0

    # Its queries run in this thread, so no connection stays open in another one.
    async_to_sync(use)()


@pytest.mark.database
def test_digests_differ_and_fit_the_column() -> None:
    found = {digest(f"key {number}") for number in range(1_000)}
    assert len(found) == 1_000
    length: Any = Session._meta.get_field("session_key").max_length
    assert {len(one) for one in found} == {length}
    assert all(set(one) <= set("0123456789abcdef") for one in found), "the same in a collation that ignores case"
