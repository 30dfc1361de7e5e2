"""Signing in on a real Redis, and what is left of it while Redis is away."""

import time
from typing import Any

import pytest

from console.accounts import services
from console.accounts.models import User
from console.accounts.roles import Role
from tests.support.people import TESTER, Page, person
from tests.support.services import Server
from tests.support.waiting import promised

pytestmark = pytest.mark.django_db
LONGEST_SECONDS = 8.0
"""Redis is waited for a second at a time, a few times a request."""


@pytest.fixture(autouse=True)
def on_redis(settings: Any, redis_server: Server, request: pytest.FixtureRequest) -> Server:
    settings.CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": redis_server.url,
            "KEY_PREFIX": request.node.name,
            "OPTIONS": {"socket_connect_timeout": 1, "socket_timeout": 1},
        }
    }
    person("ada", Role.OPERATOR)
    return redis_server


def test_guesses_are_counted_in_redis() -> None:
    for _ in range(5):
        assert Page().sign_in("wrong").json()["errors"][0]["code"] == "username_password_mismatch"
    assert Page().sign_in().json()["errors"][0]["code"] == "too_many_login_attempts"


def test_who_knows_the_password_is_not_counted() -> None:
    for _ in range(7):
        assert Page().sign_in().status_code == 200


def test_with_redis_away_nobody_signs_in_and_who_is_in_works_on(on_redis: Server) -> None:
    inside, outside = Page(), Page()
    assert inside.sign_in().status_code == 200
    with on_redis.stopped():
        answer = outside.sign_in()
        assert (answer.status_code, answer.json()["code"]) == (503, "accounts.limits_away")
        assert inside.ask("GET", "/api/v1/me/").status_code == 200
        assert inside.ask("GET", "/api/v1/subjects/").status_code == 200
    assert outside.sign_in().status_code == 200


def test_a_lock_ends_with_redis_away_too(on_redis: Server) -> None:
    ada = User.objects.get(username="ada")
    for _ in range(6):
        Page().sign_in("wrong")
    with on_redis.stopped():
        change = services.unlock_user(ada.pk, actor=TESTER)
        assert (change.before, change.after) == ({"is_locked": None}, {"is_locked": False})
    assert Page().sign_in().status_code == 200


def test_a_redis_that_hangs_is_not_waited_for_long(on_redis: Server) -> None:
    inside, outside = Page(), Page()
    assert inside.sign_in().status_code == 200
    with on_redis.paused():
        began = time.monotonic()
        assert outside.sign_in().status_code == 503
        assert inside.ask("GET", "/api/v1/subjects/").status_code == 200
        assert time.monotonic() - began < promised(LONGEST_SECONDS)
