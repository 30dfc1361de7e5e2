"""Whole lists as files: what a cell may hold, pages behind a file, its limits, and what is said when something is missing."""

import csv
import io
import json
import re
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import OperationalError
from django.test import AsyncClient
from rest_framework.test import APIClient

from api import downloads
from api.pagination import PAGE_MAX
from api.problems import Problem
from api.throttles import DownloadThrottle
from api.views.subjects import SubjectsView
from console.accounts.roles import Role
from metaserver.models import Subject
from metaserver.services import subjects, teams
from tests.support.console.metadata import ACTOR
from tests.support.console.people import browser, person
from tests.support.manual_clock import ManualClock

pytestmark = pytest.mark.django_db
LIST = "/api/v1/subjects/"


@pytest.fixture
def admin(db: None) -> APIClient:
    return browser(person("root", Role.ADMIN))


def fill(count: int) -> None:
    Subject.objects.bulk_create([Subject(name=f"s{number:04}") for number in range(count)])


def text_of(answer: Any) -> str:
    assert answer.status_code == 200, answer.content
    return b"".join(answer.streaming_content).decode()


def rows_of(answer: Any) -> list[list[str]]:
    text = text_of(answer)
    assert text[0] == downloads.BOM
    return list(csv.reader(io.StringIO(text[1:])))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""), (True, "true"), (0, "0"), (-5, "-5"), (1.5, "1.5"), ("plain", "plain"), ("12", "12"),
        ("=1+1", "'=1+1"), ("+1", "'+1"), ("-1", "'-1"), ("@x", "'@x"), ("\tx", "'\tx"), ("\rx", "'\rx"), ("＝1", "'＝1"),
        ("1234567890123456", "'1234567890123456"), ("007", "'007"), ("12e5", "'12e5"), (["a", "ü"], '["a","ü"]'),
        ({"k": 1}, '{"k":1}'), ("a=b", "a=b"), ("x;=1+1", "'x;=1+1"), ("a;b; -1", "'a;b; -1"), ("x\t@y", "'x\t@y"),
        ("x\n=1", "'x\n=1"), (" =1", "' =1"), ("\u200b=1", "'\u200b=1"), ("\ufeff+1", "'\ufeff+1"), ("a;b=1", "a;b=1"),
        ("a;\u200b=1", "'a;\u200b=1"), ("\u200b007", "'\u200b007"), ("a-b", "a-b"),
    ],
)  # fmt: skip
def test_no_cell_is_calculated_or_changed_by_a_spreadsheet(value: Any, shown: str) -> None:
    assert downloads.cell(value) == shown


def test_every_cell_is_quoted() -> None:
    """A spreadsheet that separates at semicolons would take a part of an unquoted cell for a cell of its own."""
    assert downloads._line(["a;=1+1;b", 'x"y', ""]) == '"a;=1+1;b","x""y",""\r\n'


@pytest.mark.database
def test_a_csv_has_the_whole_filtered_ordered_list(admin: APIClient) -> None:
    fill(PAGE_MAX + 20)
    subjects.create_subject("other", {"description": '=HYPERLINK("x"), "quoted"\nline'}, actor=ACTOR)
    answer = admin.get(f"{LIST}?format=csv&search=s0&ordering=-name")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert re.fullmatch(r'attachment; filename="subjects-\d{8}-\d{6}Z\.csv"', answer.headers["Content-Disposition"])
    assert (answer.headers[downloads.CUT_HEADER], answer.headers["Cache-Control"]) == ("false", "no-store")
    rows = rows_of(answer)
    at = rows[0].index("name")
    assert [row[at] for row in rows[1:]] == [f"s{number:04}" for number in reversed(range(PAGE_MAX + 20))]
    other = rows_of(admin.get(f"{LIST}?format=csv&search=other"))
    assert other[1][rows[0].index("description")] == '\'=HYPERLINK("x"), "quoted"\nline'


def test_json_is_the_list_as_pages_have_it(admin: APIClient) -> None:
    fill(PAGE_MAX + 20)
    found = json.loads(text_of(admin.get(f"{LIST}?format=json")))
    pages = admin.get(f"{LIST}?limit=500").json()
    assert found["results"][:PAGE_MAX] == pages["results"]
    assert len(found["results"]) == found["rows"] == PAGE_MAX + 20
    assert (found["is_complete"], found["notes"], found["next"], found["previous"]) == (True, [], None, None)


def test_an_empty_list_has_its_columns(admin: APIClient) -> None:
    assert len(rows_of(admin.get(f"{LIST}?format=csv"))) == 1
    assert json.loads(text_of(admin.get(f"{LIST}?format=json")))["results"] == []


def test_accept_asks_for_csv_too(admin: APIClient) -> None:
    assert rows_of(admin.get(LIST, HTTP_ACCEPT="text/csv"))
    assert "results" in admin.get(LIST, HTTP_ACCEPT="text/csv, application/json").json()


@pytest.mark.database
def test_past_the_limit_header_and_last_line_say_so_and_the_rest_can_be_had(
    admin: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SubjectsView, "download_rows_max", 5)
    monkeypatch.setattr(SubjectsView, "download_page_rows", 3)
    fill(7)
    answer = admin.get(f"{LIST}?format=csv")
    assert (answer.headers[downloads.CUT_HEADER], answer.headers[downloads.ROWS_HEADER]) == ("true", "5")
    rows = rows_of(answer)
    assert len(rows) == 1 + 5 + 1
    assert rows[-1][0].startswith("# incomplete: An export is limited to 5 rows. Continue with cursor ")
    found = json.loads(text_of(admin.get(f"{LIST}?format=json")))
    assert (len(found["results"]), found["is_complete"]) == (5, False)
    rest = json.loads(text_of(admin.get(f"{LIST}?format=json&cursor={found['next']}")))
    assert [row["name"] for row in rest["results"]] == ["s0005", "s0006"]
    assert rest["is_complete"]
    few = admin.get(f"{LIST}?format=csv&limit=2")
    assert few.headers[downloads.CUT_HEADER] == "true"
    assert len(rows_of(few)) == 1 + 2 + 1
    exactly = admin.get(f"{LIST}?format=csv&search=s000&limit=7&ordering=name")
    assert exactly.headers[downloads.ROWS_HEADER] == "5"
    Subject.objects.filter(name__gte="s0005").delete()
    whole = admin.get(f"{LIST}?format=csv")
    assert whole.headers[downloads.CUT_HEADER] == "false"
    assert len(rows_of(whole)) == 1 + 5


def test_what_takes_too_long_says_so(admin: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "SECONDS_MAX", -1.0)
    monkeypatch.setattr(SubjectsView, "download_page_rows", 2)
    fill(5)
    rows = rows_of(admin.get(f"{LIST}?format=csv"))
    assert len(rows) == 1 + 2 + 1
    assert "reached its time limit" in rows[-1][0]


def test_a_failure_in_the_middle_is_the_last_line(admin: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SubjectsView, "download_page_rows", 2)
    fill(5)
    answer = admin.get(f"{LIST}?format=csv")

    def away() -> Any:
        raise OperationalError("gone")

    monkeypatch.setattr(SubjectsView, "rows", staticmethod(away))
    rows = rows_of(answer)
    assert len(rows) == 1 + 2 + 1
    assert rows[-1][0].startswith("# incomplete: The remaining rows could not be read: The database is unavailable")


@pytest.mark.parametrize(
    "query", ["format=xml", "format=csv&limit=0", "format=csv&cursor=none", "format=csv&ordering=none", "format=csv&is_owned=x"]
)  # fmt: skip
def test_what_can_not_be_is_a_problem_and_no_file(admin: APIClient, query: str) -> None:
    answer = admin.get(f"{LIST}?{query}")
    assert (answer.status_code, answer.headers["Content-Type"]) == (400, "application/problem+json")


def test_what_is_no_list_can_not_be_downloaded(admin: APIClient) -> None:
    answer = admin.get("/api/v1/me/?format=csv")
    assert (answer.status_code, set(answer.json()["fields"])) == (400, {"format"})


def test_rights_are_those_of_the_list(admin: APIClient) -> None:
    viewer = browser(person("vera"))
    for path in ("/api/v1/audit/", "/api/v1/users/"):
        assert viewer.get(f"{path}?format=csv").status_code == 403
        assert rows_of(admin.get(f"{path}?format=csv"))
    assert APIClient().get(f"{LIST}?format=csv").status_code == 401
    teams.create_team("shop", actor=ACTOR)
    assert rows_of(viewer.get("/api/v1/teams/?format=csv"))[1][0] == "shop"


@pytest.mark.database
@pytest.mark.django_db(transaction=True)
def test_an_event_loop_sends_it_chunk_by_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """As uvicorn asks: with a plain iterator Django would collect the whole file first."""
    monkeypatch.setattr(SubjectsView, "download_page_rows", 3)
    fill(7)
    user = person("root", Role.ADMIN)

    async def ask() -> list[bytes]:
        client = AsyncClient()
        await client.aforce_login(user)
        answer = await client.get(f"{LIST}?format=csv")
        assert answer.is_async
        return [chunk async for chunk in answer.streaming_content]

    chunks = async_to_sync(ask)()
    assert len(chunks) == 1 + 3
    assert b"".join(chunks).count(b"\r\n") == 1 + 7


# --- how many at a time -------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)  # the end of a download closes a connection in a transaction
def test_a_user_has_so_many_downloads_running_and_no_more(
    admin: APIClient, running: downloads.RunningDownloads
) -> None:
    fill(5)
    path = f"{LIST}?format=csv"
    unread = [admin.get(path) for _ in range(downloads.RUNNING_OF_USER_MAX)]
    assert [answer.status_code for answer in unread] == [200] * downloads.RUNNING_OF_USER_MAX
    refused = admin.get(path)
    assert (refused.status_code, refused.json()["code"]) == (429, "download.too_many")
    assert refused.headers["Retry-After"] == str(downloads.RETRY_SECONDS)
    assert admin.get(LIST).status_code == 200, "pages are no downloads"
    assert browser(person("vera")).get(path).status_code == 200, "counted by user"
    text_of(unread[0])
    unread[1].close()
    again = [admin.get(path) for _ in range(3)]
    assert [answer.status_code for answer in again] == [200, 200, 429], "one that was read or closed counts no more"
    assert len(running) == downloads.RUNNING_OF_USER_MAX + 1


def test_a_download_that_is_refused_or_fails_does_not_count(
    admin: APIClient, running: downloads.RunningDownloads, monkeypatch: pytest.MonkeyPatch
) -> None:
    for query in ("format=csv&limit=0", "format=csv&cursor=none", "format=csv&ordering=none"):
        assert admin.get(f"{LIST}?{query}").status_code == 400
    assert admin.get("/api/v1/me/?format=csv").status_code == 400

    def broken() -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(SubjectsView, "rows", staticmethod(broken))
    assert admin.get(f"{LIST}?format=csv").status_code == 500
    assert len(running) == 0


def test_in_all_there_are_so_many_and_a_lost_one_counts_for_a_while_only() -> None:
    clock = ManualClock()
    running = downloads.RunningDownloads(clock)
    numbers = [running.begin(user) for user in range(downloads.RUNNING_MAX)]
    with pytest.raises(Problem):
        running.begin("another")
    running.end(numbers[0])
    running.end(numbers[0])
    running.begin("another")
    with pytest.raises(Problem):
        running.begin("yet another")
    clock.advance(downloads.RUNNING_SECONDS_MAX)
    running.begin("yet another")
    assert len(running) == 1


@pytest.mark.django_db(transaction=True)
def test_downloads_are_limited_by_the_minute_too(admin: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DownloadThrottle, "THROTTLE_RATES", {"download": "2/min"})
    statuses = []
    for _ in range(3):
        answer = admin.get(f"{LIST}?format=csv")
        statuses.append(answer.status_code)
        answer.close()
    assert statuses == [200, 200, 429]
    assert admin.get(LIST).status_code == 200
