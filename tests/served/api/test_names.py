"""Names with hidden characters are refused wherever the API creates something; what is stored already can be changed."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from console.accounts.roles import Role
from metaserver.models import ConsumerGroup, Subject
from metaserver.services import subjects
from tests.support.console.metadata import ACTOR, everything
from tests.support.console.people import browser, person

pytestmark = pytest.mark.django_db
API = "/api/v1"
HIDDEN = (".", "..", "or\u202eders", "or\xa0ders", "or\x05ders", "orders\u200b", "orde\u0301")


@pytest.fixture
def admin(db: None) -> APIClient:
    subjects.create_subject("orders", {}, actor=ACTOR)
    return browser(person("root", Role.ADMIN))


@pytest.mark.parametrize("name", HIDDEN)
def test_a_new_name_with_a_hidden_character_is_refused(admin: APIClient, name: str) -> None:
    before = everything()
    calls: list[tuple[str, dict[str, Any], str]] = [
        ("subjects/", {"name": name}, "subject.name_illegal"),
        ("consumer-groups/", {"subject": "orders", "name": name}, "group.name_illegal"),
        ("broker-groups/", {"name": name, "kind": "broker"}, "broker_group.name_illegal"),
        ("apply/", {"subjects": [{"name": name}]}, "subject.name_illegal"),
        ("apply/", {"subjects": [{"name": "orders", "consumer_groups": [{"name": name}]}]}, "group.name_illegal"),
        ("apply/", {"subjects": [{"name": f"%RETRY%orders%{name}"}]}, "subject.name_illegal"),
    ]
    for path, body, code in calls:
        answer = getattr(admin, "put" if path == "apply/" else "post")(f"{API}/{path}", body)
        assert (answer.status_code, answer.json()["code"]) == (400, code), (path, answer.content)
    assert everything() == before


@pytest.mark.parametrize("text", ["a\x1b[31mb", "a\tb", "a\rb", "a\x7fb", "a\u009bb"])
def test_reasons_and_descriptions_have_no_control_characters_but_line_feeds(admin: APIClient, text: str) -> None:
    before = everything()
    for body in ({"description": text}, {"description": "x", "reason": text}, {"tags": [text]}):
        answer = admin.patch(f"{API}/subjects/orders/", body)
        assert answer.status_code == 400, body
        assert "control characters" in answer.json()["detail"]
    assert admin.put(f"{API}/apply/?reason=a%1Bb", {"subjects": []}).status_code == 400
    assert everything() == before
    assert admin.patch(f"{API}/subjects/orders/", {"description": "a\nb", "reason": "c\nd"}).status_code == 200


@pytest.mark.database
def test_a_name_stored_before_can_be_read_changed_and_removed(admin: APIClient) -> None:
    name = "or\u202eders"
    row = Subject.objects.create(name=name)
    ConsumerGroup.objects.create(subject=row, name="bill\xa0ing")
    assert admin.patch(f"{API}/subjects/{name}/", {"description": "old"}).status_code == 200
    group = f"{API}/consumer-groups/{name}/bill\xa0ing/"
    assert admin.post(f"{group}pause/", {}).status_code == 200
    document = {"subjects": [{"name": name, "consumer_groups": [{"name": "bill\xa0ing", "tags": ["a"]}]}]}
    assert admin.put(f"{API}/apply/", document).status_code == 200
    assert admin.delete(group).status_code == 200
