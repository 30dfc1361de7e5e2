"""How long a session lives, and how it is ended."""

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone
from rest_framework.test import APIClient

from console.accounts import services, sessions
from console.accounts.models import UserSession
from console.accounts.roles import Role, Scope
from console.live.access import Credential, find
from metaserver import queries
from tests.support.console.people import TESTER, Page, browser, machine, person

pytestmark = pytest.mark.django_db
ALMOST = timedelta(seconds=20)


def moved(*, idle: timedelta = timedelta(), life: timedelta = timedelta()) -> None:
    """Let the one session have been idle, and alive, for so long."""
    now = timezone.now()
    assert UserSession.objects.update(seen_at=now - idle, started_at=now - max(idle, life)) == 1


def is_in(client: APIClient) -> bool:
    status = client.get("/api/v1/me/").status_code
    assert status in (200, 401)
    return status == 200


def test_it_ends_after_half_an_hour_without_a_request() -> None:
    client = browser(person("ada"))
    moved(idle=sessions.IDLE_MAX - ALMOST)
    before = timezone.now()
    assert is_in(client)
    # That request was seen: the half hour begins anew.
    assert UserSession.objects.get().seen_at >= before
    moved(idle=sessions.IDLE_MAX)
    assert not is_in(client)
    assert not UserSession.objects.exists()
    assert not is_in(client)


def test_it_ends_after_twelve_hours_however_busy() -> None:
    client = browser(person("ada"))
    moved(life=sessions.LIFE_MAX - ALMOST)
    assert is_in(client)
    moved(life=sessions.LIFE_MAX)
    assert not is_in(client)


def test_the_cookie_lives_as_long_as_the_session() -> None:
    person("ada")
    page = Page()
    assert page.sign_in().status_code == 200
    cookie = page.client.cookies[settings.SESSION_COOKIE_NAME]
    assert cookie["max-age"] == sessions.LIFE_MAX.total_seconds()


@pytest.mark.database
def test_when_it_was_seen_is_written_once_a_minute_at_most(django_assert_num_queries: Any) -> None:
    client = browser(person("ada"))
    before = UserSession.objects.get().seen_at
    assert is_in(client)
    assert UserSession.objects.get().seen_at == before


def test_what_a_page_asks_for_by_itself_keeps_nobody_signed_in() -> None:
    user = person("ada")
    client = browser(user)
    moved(idle=timedelta(minutes=5))
    before = UserSession.objects.get().seen_at
    assert sessions.live_session(client.session, user.pk, seen=False) is not None
    assert UserSession.objects.get().seen_at == before


def test_a_session_is_its_users_alone() -> None:
    user, other = person("ada"), person("eve")
    client = browser(user)
    assert sessions.live_session(client.session, other.pk, seen=True) is None


def test_a_session_django_knows_and_we_do_not_is_nobodys() -> None:
    client = browser(person("ada"))
    UserSession.objects.all().delete()
    assert not is_in(client)


def test_one_sees_and_ends_ones_own_sessions_and_no_others() -> None:
    ada, eve = person("ada"), person("eve")
    here, there, hers = browser(ada), browser(ada), browser(eve)
    rows = here.get("/api/v1/me/sessions/").json()["results"]
    assert [row["is_this"] for row in rows] == [False, True]
    eves = UserSession.objects.get(user=eve).pk
    assert here.delete(f"/api/v1/me/sessions/{eves}/").status_code == 404
    assert is_in(hers)
    assert here.delete(f"/api/v1/me/sessions/{rows[0]['id']}/?dry_run=true").status_code == 200
    assert is_in(there)
    assert here.delete(f"/api/v1/me/sessions/{rows[0]['id']}/").status_code == 200
    assert not is_in(there)
    assert is_in(here)
    assert here.delete("/api/v1/me/sessions/").status_code == 200
    assert not is_in(here)
    assert is_in(hers)


def test_all_others_can_be_ended_and_the_one_that_asks_stays() -> None:
    ada = person("ada")
    here, there, elsewhere = browser(ada), browser(ada), browser(ada)
    plan = here.delete("/api/v1/me/sessions/?keep_this=true&dry_run=true").json()
    assert (plan["before"], plan["after"]) == ({"sessions": 3}, {"sessions": 1})
    assert is_in(there)
    assert here.delete("/api/v1/me/sessions/?keep_this=true").json()["is_change"] is True
    assert (is_in(here), is_in(there), is_in(elsewhere)) == (True, False, False)
    assert here.delete("/api/v1/me/sessions/?keep_this=true").json()["is_change"] is False


def test_an_administrator_signs_somebody_out_everywhere() -> None:
    ada = person("ada", Role.OPERATOR)
    one, two, program = browser(ada), browser(ada), machine(ada, Scope.READ)
    admin = browser(person("root", Role.ADMIN))
    where = f"/api/v1/users/{ada.pk}/end-sessions/"
    plan = admin.post(f"{where}?dry_run=true", {"reason": "lost laptop"}).json()
    assert (plan["before"], plan["after"]) == ({"sessions": 2}, {"sessions": 0})
    assert is_in(one)
    assert admin.post(where, {"reason": "lost laptop"}).status_code == 200
    assert not is_in(one)
    assert not is_in(two)
    assert program.get("/api/v1/subjects/").status_code == 200, "tokens stay"
    entry = queries.audit_entries().get(action="user.end_sessions")
    assert (entry.actor, entry.target, entry.reason) == ("root", "ada", "lost laptop")


def test_disabling_ends_sessions_and_tokens_at_once_and_for_good() -> None:
    ada = person("ada", Role.OPERATOR)
    window, program = browser(ada), machine(ada, Scope.READ)
    change = services.update_user(ada.pk, {"is_active": False}, actor=TESTER)
    assert change.notes == ("Sessions ended: 1. Tokens revoked: 1.",)
    assert not is_in(window)
    assert program.get("/api/v1/subjects/").status_code == 401
    services.update_user(ada.pk, {"is_active": True}, actor=TESTER)
    assert not is_in(window)
    assert program.get("/api/v1/subjects/").status_code == 401


def test_the_role_of_a_disabled_user_is_of_no_use_even_with_the_row_left() -> None:
    ada = person("ada", Role.OPERATOR)
    window = browser(ada)
    type(ada).objects.filter(pk=ada.pk).update(is_active=False)
    assert not is_in(window)


@pytest.mark.database
def test_old_rows_are_forgotten_so_many_at_a_time() -> None:
    ada = person("ada")
    for _ in range(3):
        browser(ada)
    assert sessions.forget_expired(10) == 0
    now = timezone.now()
    first, second, _ = UserSession.objects.order_by("pk")
    UserSession.objects.filter(pk=first.pk).update(seen_at=now - sessions.IDLE_MAX)
    UserSession.objects.filter(pk=second.pk).update(started_at=now - sessions.LIFE_MAX)
    assert sessions.forget_expired(1) == 1
    assert sessions.forget_expired(10) == 1
    assert UserSession.objects.count() == 1


def test_a_password_given_over_five_minutes_ago_does_not_count_any_more() -> None:
    client = browser(person("ada"))
    assert client.get("/api/v1/me/").json()["proved_recently"] is True
    session = client.session
    session[sessions.RECORDS_KEY] = [{"method": "password", "at": timezone.now().timestamp() - 300}]
    session.save()
    assert client.get("/api/v1/me/").json()["proved_recently"] is False


def test_an_ended_session_opens_no_websocket_either(settings: Any) -> None:
    ada = person("ada")
    client = browser(ada)
    shown = Credential(session_key=client.cookies[settings.SESSION_COOKIE_NAME].value)
    visitor = find(shown)
    assert visitor is not None
    assert visitor.username == "ada"
    moved(idle=sessions.IDLE_MAX - ALMOST)
    assert find(shown) is not None, "not over yet, and not made longer by this"
    moved(idle=sessions.IDLE_MAX)
    assert find(shown) is None

    client = browser(ada)
    shown = Credential(session_key=client.cookies[settings.SESSION_COOKIE_NAME].value)
    services.end_sessions(ada.pk, actor=TESTER)
    assert find(shown) is None
