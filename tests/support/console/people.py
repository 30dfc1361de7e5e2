"""People and machines for tests: users with a role, browsers they are signed in with, tokens."""

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.hashers import Argon2PasswordHasher
from django.core.cache import caches
from django.test import Client, override_settings
from rest_framework.test import APIClient

from console.accounts import services, tokens
from console.accounts.models import User
from console.accounts.roles import Role, Scope
from metaserver.services.changes import Actor
from tests.support.console.password import PASSWORD

SIGN_IN = "/_allauth/browser/v1"
TESTER = Actor("tester", "192.0.2.1", "request-of-a-test")


def person(name: str, role: Role = Role.VIEWER, teams: Iterable[str] = (), **values: Any) -> User:
    """A user with PASSWORD."""
    given = {"role": role.value, "teams": list(teams), **values}
    made = services.create_user(name, given, password=PASSWORD, actor=TESTER)
    return User.objects.get(pk=made.id)


def browser(user: User, *, proved: bool = True) -> APIClient:
    """A browser the user is signed in with; `proved`: the password was given just now."""
    client = APIClient(raise_request_exception=False)
    client.force_login(user)
    if proved:
        session = client.session
        session["account_authentication_methods"] = [{"method": "password", "at": time.time()}]
        session["account_authentication_methods_user"] = str(user.pk)
        session.save()
    return client


def machine(owner: User, *scopes: Scope) -> APIClient:
    """A program with a token of these scopes."""
    _, token, _ = tokens.create_token(owner, "a program", scopes, timedelta(days=1), actor=TESTER)
    client = APIClient(raise_request_exception=False)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


class Page:
    """A page of the console in a browser: sends JSON with the CSRF token its cookie has."""

    def __init__(self, **extra: Any) -> None:
        self.client = Client(enforce_csrf_checks=True, raise_request_exception=False, **extra)
        self.client.get(f"{SIGN_IN}/config")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        token = self.client.cookies[settings.CSRF_COOKIE_NAME].value
        return self.client.generic(
            method,
            path if path.startswith("/api") else f"{SIGN_IN}/{path}",
            json.dumps(body) if body is not None else "",
            content_type="application/json",
            headers={"X-CSRFToken": token},
        )

    def sign_in(self, password: str = PASSWORD, **name: str) -> Any:
        return self.ask("POST", "auth/login", {**(name or {"username": "ada"}), "password": password})


class QuickArgon2(Argon2PasswordHasher):
    """Argon2 that costs next to nothing: these tests make and check hundreds of passwords."""

    time_cost = 1
    memory_cost = 8
    parallelism = 1


@contextmanager
def without_redis() -> Iterator[None]:
    """Caches in this process, for tests that Redis is not the subject of; quick passwords."""
    cache = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "tests"}
    hashers = ["tests.support.console.people.QuickArgon2"]
    with override_settings(CACHES={"default": cache}, PASSWORD_HASHERS=hashers):
        caches["default"].clear()
        yield
