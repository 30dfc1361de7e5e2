"""Which consumer groups count as groups whose members subscribe differently."""

from typing import Any

from console.cluster.clients import ClientRole, ClientRow, mark_differences


def member(subject: str, client_id: str, group: str = "g", app: str = "shop", **fields: Any) -> ClientRow:
    pulled: dict[str, Any] = {"addresses": ["10.0.0.1:5"], "tags": [], "all_tags": False, "broadcast": False, **fields}
    return ClientRow(ClientRole.CONSUMER, subject, app, "h", group, client_id, **pulled)


def differences(*rows: ClientRow) -> list[tuple[str, str, list[str]]]:
    return [(found.subject, found.group, list(found.differs)) for found in mark_differences(rows)]


def test_members_that_subscribe_alike_are_no_difference() -> None:
    assert differences(member("a", "1"), member("a", "2"), member("b", "1"), member("b", "2")) == []
    assert differences(member("a", "1", tags=["x"]), member("a", "2", group="other")) == []


def test_other_tags_other_conditions_and_other_modes_are_differences() -> None:
    rows = [member("a", "1", tags=["x", "y"]), member("a", "2", tags=["x"])]
    assert differences(*rows) == [("a", "g", ["tags"])]
    assert [row.differs for row in rows] == [["tags"], ["tags"]]
    assert differences(member("a", "1", tags=["x"]), member("a", "2", tags=["x"], all_tags=True)) == [
        ("a", "g", ["tags"])
    ]
    assert differences(member("a", "1"), member("a", "2", broadcast=True)) == [("a", "g", ["broadcast"])]


def test_members_of_one_application_with_some_subjects_in_common_are_a_difference() -> None:
    old, new = member("a", "1"), member("a", "2")
    assert differences(old, new, member("b", "2")) == [("a", "g", ["subjects"])]
    # A process for each subject, and groups of one name in two applications, are common.
    assert differences(member("a", "1"), member("b", "2")) == []
    assert differences(member("a", "1"), member("a", "2", app="mail"), member("b", "2", app="mail")) == []


def test_what_a_member_without_a_connection_pulls_is_not_known() -> None:
    assert differences(member("a", "1", tags=["x"]), member("a", "2", addresses=[], tags=None)) == []


def test_the_number_of_groups_is_limited() -> None:
    rows = [member(f"s{n:02}", client, broadcast=client == "1") for n in range(30) for client in "12"]
    assert len(differences(*rows)) == 20
