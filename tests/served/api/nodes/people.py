"""Owners of subjects, and lists read to their end."""

from typing import Any

from rest_framework.test import APIClient

from metaserver import queries
from metaserver.services import subjects, teams
from tests.support.console.people import TESTER


def give(subject: str, team: str) -> None:
    """Let a team own a subject."""
    if not queries.teams().filter(name=team).exists():
        teams.create_team(team, actor=TESTER)
    subjects.update_subject(subject, {"owner": team}, actor=TESTER)


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
