"""Callers by role, and a webhook's receiver."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from console.accounts.models import ApiToken, User
from console.accounts.roles import Role, Scope
from console.accounts.tokens import new_token
from tests.served.api.alerts.receiver import Receiver


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    """Its network is allowed."""
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    running = Receiver()
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(autouse=True)
def no_redis(settings: Any) -> None:
    """Rate limits count in this process: Redis is not the subject here."""
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}


@pytest.fixture
def caller(db: None) -> Callable[[Role], APIClient]:
    """Makes a client that asks with a token of a user of a role."""

    def make(role: Role) -> APIClient:
        user = User.objects.create(username=f"{role}-user", role=role)
        token, prefix, digest = new_token()
        ApiToken.objects.create(
            name="test", owner=user, prefix=prefix, digest=digest, scopes=[Scope.ADMIN, Scope.OPERATE],
            expires_at=timezone.now() + timedelta(hours=1),
        )  # fmt: skip
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
        return client

    return make


@pytest.fixture
def viewer(caller: Callable[[Role], APIClient]) -> APIClient:
    return caller(Role.VIEWER)


@pytest.fixture
def operator(caller: Callable[[Role], APIClient]) -> APIClient:
    return caller(Role.OPERATOR)


@pytest.fixture
def admin(caller: Callable[[Role], APIClient]) -> APIClient:
    return caller(Role.ADMIN)
