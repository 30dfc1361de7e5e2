"""Signing in on a real Redis, what is left of it while Redis is away, and values in Redis that somebody else wrote."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import redis

from console import settings as console_settings
from console.accounts import services
from console.accounts.models import User
from console.accounts.roles import Role
from tests.support.console.people import TESTER, Page, person
from tests.support.servers.services import Server
from tests.support.waiting import timed

pytestmark = pytest.mark.django_db
LONGEST_SECONDS = 8.0
"""Redis is waited for a second at a time, a few times a request."""
WRONG_PASSWORD = "username_password_mismatch"


class RunsWhenUnpickled:
    """An object whose pickle creates a file when it is loaded."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> Any:
        return Path.touch, (self._marker,)


@pytest.fixture(autouse=True)
def on_redis(settings: Any, redis_server: Server, request: pytest.FixtureRequest) -> Server:
    ours = console_settings.CACHES["default"]
    settings.CACHES = {"default": {**ours, "LOCATION": [redis_server.url], "KEY_PREFIX": request.node.name}}
    person("ada", Role.OPERATOR)
    return redis_server


def test_guesses_are_counted_in_redis() -> None:
    for _ in range(5):
        assert Page().sign_in("wrong").json()["errors"][0]["code"] == WRONG_PASSWORD
    assert Page().sign_in().json()["errors"][0]["code"] == "too_many_login_attempts"


def test_who_knows_the_password_is_not_counted() -> None:
    for _ in range(7):
        assert Page().sign_in().status_code == 200


FORGERIES = {
    "pickle": lambda marker: pickle.dumps(RunsWhenUnpickled(marker)),
    "binary": lambda _: b"\xff\xfe\x00",
    "deep-json": lambda _: b"[" * 100_000,
    "huge-number": lambda _: b"9" * 10_000,
    "empty": lambda _: b"",
}


@pytest.mark.parametrize("kind", FORGERIES)
def test_a_forged_counter_runs_no_code_and_counts_as_missing(
    on_redis: Server, request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    marker = tmp_path / "code was run"
    assert Page().sign_in("wrong").json()["errors"][0]["code"] == WRONG_PASSWORD
    with redis.Redis.from_url(on_redis.url) as client:
        keys = [key for key in client.scan_iter() if key.startswith(request.node.name.encode())]
        assert keys, "the failed sign-in was counted"
        for key in keys:
            client.set(key, FORGERIES[kind](marker), keepttl=True)
    assert Page().sign_in("wrong").json()["errors"][0]["code"] == WRONG_PASSWORD
    assert Page().sign_in().status_code == 200
    assert not marker.exists()


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
    with on_redis.paused(), timed("two requests while Redis hangs", LONGEST_SECONDS):
        assert outside.sign_in().status_code == 503
        assert inside.ask("GET", "/api/v1/subjects/").status_code == 200
