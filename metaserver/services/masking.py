"""The masking rules of a subject: their fields, and what a list of them may be."""

from collections.abc import Mapping, Sequence
from typing import Any

from metaserver.services.fields import Choice, Objects, Text, Texts, Values
from qmq.protocol.masking.masks import size_of
from qmq.protocol.masking.rules import (
    PATTERN_CHARS_MAX,
    PATTERNS_MAX,
    READER_ROLES,
    RULES_BYTES_MAX,
    RULES_MAX,
    How,
    path_problem,
    property_problem,
)


def _problem(rules: Sequence[Mapping[str, Any]]) -> str:
    for number, rule in enumerate(rules, 1):
        if not rule.get("properties") and not rule.get("json_paths"):
            return f"rule {number}: must name a property or a JSON path"
    size = size_of(MASKING.stored(rules))
    return "" if size <= RULES_BYTES_MAX else f"the rules have {size} bytes in total; the limit is {RULES_BYTES_MAX}"


def _patterns(check: Any, text: str) -> Texts:
    return Texts(item=Text(chars_min=1, chars_max=PATTERN_CHARS_MAX, check=check), items_max=PATTERNS_MAX, help=text)


MASKING = Objects(
    item=Values(
        fields={
            "properties": _patterns(property_problem, "names of properties; * stands for any characters"),
            "json_paths": _patterns(path_problem, "paths into the body as JSON, for example items[*].price"),
            "roles": Texts(
                item=Text(chars_max=20, check=lambda role: "" if role in READER_ROLES else "must be operator or admin"),
                items_max=len(READER_ROLES),
                help="roles that see the values; empty: none does",
            ),
            "how": Choice(values=tuple(How), help="what is shown instead"),
        }
    ),
    defaults={"properties": [], "json_paths": [], "roles": [], "how": How.HIDE.value},
    items_max=RULES_MAX,
    check=_problem,
    help="what people do not see of messages; only administrators can change it",
)
