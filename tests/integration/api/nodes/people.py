"""People who ask the API."""

from datetime import timedelta
from typing import Any

from django.utils import timezone
from rest_framework.test import APIClient

from console.accounts.models import ApiToken, User
from console.accounts.roles import Role, Scope
from console.accounts.tokens import new_token
from metaserver import queries
from metaserver.services import subjects, teams
from metaserver.services.changes import Actor

TEST = Actor("test")
ALL_SCOPES = [Scope.READ, Scope.MESSAGES, Scope.OPERATE, Scope.ADMIN]


def client_of(name: str, role: Role, *team_names: str) -> APIClient:
    """A client with a token of a new user."""
    user = User.objects.create_user(name, role=role)
    user.teams.set(queries.teams().filter(name__in=team_names))
    token, prefix, digest = new_token()
    ApiToken.objects.create(
        name="test", owner=user, prefix=prefix, digest=digest, scopes=ALL_SCOPES,
        expires_at=timezone.now() + timedelta(hours=1),
    )  # fmt: skip
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


def give(subject: str, team: str) -> None:
    """Let a team own a subject."""
    if not queries.teams().filter(name=team).exists():
        teams.create_team(team, actor=TEST)
    subjects.update_subject(subject, {"owner": team}, actor=TEST)


def all_pages(client: APIClient, url: str, **query: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Every result of a list, and the pages."""
    results, pages, cursor = [], [], None
    while True:
        answer = client.get(url, query | ({"cursor": cursor} if cursor else {}))
        assert answer.status_code == 200, answer.content
        pages.append(answer.json())
        results += pages[-1]["results"]
        cursor = pages[-1]["next"]
        if cursor is None:
            return results, pages
        assert len(pages) < 200, "the pages have no end"
