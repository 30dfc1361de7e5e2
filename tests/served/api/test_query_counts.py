"""How many queries each page of the API takes with 1,000 subjects and 5,000 groups: as many for 500 rows as for 10.

Pages are found by looking. The counts are in query_counts.json; QMQ_WRITE_QUERY_COUNTS=1 writes it anew, and the change shows
in review what a page costs more or less.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from console.accounts.roles import Role
from console.jobs import jobs
from tests.served.api.routes import ROUTES, Route, address
from tests.support.console.large import fill
from tests.support.console.people import browser, person
from tests.support.generated.openapi import openapi_document

FILE = Path(__file__).parent / "query_counts.json"
IS_WRITING = bool(os.environ.get("QMQ_WRITE_QUERY_COUNTS"))
LARGEST = (500, 200, 100, 50, 20)
"""Rows of a page; lists that ask nodes have smaller pages."""
NAMES = {"job": {"name": "cleanups"}}
"""Where an argument means something else than elsewhere."""
QUERIES = {"delayed-message": "?message_id=m1", "alert-rule-preview": "?kind=lag&threshold=5"}
"""Parameters that an operation requires."""


def counted(client: APIClient, path: str) -> tuple[int, int, Any]:
    with CaptureQueriesContext(connection) as captured:
        answer = client.get(path)
    assert answer.status_code < 500 or answer.status_code == 503, (path, answer.content)
    return len(captured), answer.status_code, answer


def pages(known: dict[str, str]) -> list[tuple[Route, str]]:
    return [
        (route, address(route, known | NAMES.get(route.name, {}))) for route in ROUTES if "GET" in route.view.rights
    ]


@pytest.mark.django_db
def test_pages_take_as_many_queries_for_500_rows_as_for_10(settings: Any) -> None:
    settings.META_URL = "http://127.0.0.1:1/meta/address"
    user = person("root", Role.ADMIN)
    known = fill(user)
    client = browser(user)
    assert "cleanups" in jobs.JOBS
    found: dict[str, dict[str, int]] = {}
    differing, lists = {}, 0
    takes_limit = {
        path
        for path, methods in openapi_document()["paths"].items()
        if any(parameter["name"] == "limit" for parameter in methods.get("get", {}).get("parameters", ()))
    }
    for route, path in pages(known):
        if re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", f"/api/v1/{route.pattern}") not in takes_limit:
            path += QUERIES.get(route.name, "")
            client.get(path)
            few, status, _ = counted(client, path)
            found[route.name] = {"queries": few, "status": status}
            continue
        client.get(f"{path}?limit=1")  # what is remembered from the first request on
        few, status, _ = counted(client, f"{path}?limit=10")
        for limit in LARGEST:
            many, said, answer = counted(client, f"{path}?limit={limit}")
            if said == status:
                break
        if few != many:
            differing[route.name] = (few, many)
        if status == 200 and "results" in answer.json() and len(answer.json()["results"]) > 10:
            lists += 1
        found[route.name] = {"queries": few, "status": status}
    assert not differing, f"queries for 10 and for 500 rows: {differing}"
    assert lists >= 14, "lists that show more than ten rows"
    if IS_WRITING:
        FILE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    expected = json.loads(FILE.read_text())
    wrong = {name: (found.get(name), expected.get(name)) for name in found.keys() | expected.keys()}
    assert not {name: pair for name, pair in wrong.items() if pair[0] != pair[1]}, "(found, in the file)"
