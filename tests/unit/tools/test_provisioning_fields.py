"""The page about provisioning names every field of a document."""

import re

from metaserver.services import documents, groups, subjects
from tools.prose import PROJECT

PAGE = PROJECT / "docs/how-to/provisioning.md"


def documented() -> dict[str, list[str]]:
    """Object -> its fields, in the table of the page."""
    found: dict[str, list[str]] = {}
    name = ""
    for row in re.findall(r"^\|([^|]*)\| `(\w+)` \|", PAGE.read_text(), re.M):
        name = row[0].strip() or name
        found.setdefault(name, []).append(row[1])
    return found


def test_the_page_has_each_field_of_a_document_and_no_other() -> None:
    assert {name: sorted(fields) for name, fields in documented().items()} == {
        "team": sorted(documents.KEYS["teams"]),
        "subject": sorted(documents.KEYS["subjects"]),
        "consumer group": sorted(documents.GROUP_KEYS),
    }
    assert set(subjects.SUBJECT.fields) <= set(documents.KEYS["subjects"])
    assert set(groups.GROUP.fields) <= set(documents.GROUP_KEYS)
