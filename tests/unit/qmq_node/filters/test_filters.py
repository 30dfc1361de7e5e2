"""The filter language: what texts mean, and what filters match."""

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from qmq.protocol.messages import Message, encode_raw, set_large_string
from qmq.protocol.raw import RawView
from qmq_node.filters import Content, FilterError, TooCostly, compile_filter, compile_filters
from qmq_node.filters.needs import Anything, Need, Spans, by_bytes, by_index
from qmq_node.filters.tree_needs import needs_of
from qmq_node.filters.words import VARIABLES

NOW_MS = 1_700_000_000_000


def message(body: object = None, tags: tuple[str, ...] = (), message_id: str = "m1", **properties: str) -> bytes:
    values = dict(properties)
    if body is not None:
        set_large_string(values, "data", body if isinstance(body, str) else json.dumps(body))
    return encode_raw(Message("orders", message_id, values, tags, 0, NOW_MS - 5_000, NOW_MS))


def content(raw: bytes, sequence: int = 5, stored_at_ms: int = NOW_MS - 1_000) -> Content:
    return Content(sequence, RawView(raw), len(raw), stored_at_ms)


def matches(text: str, raw: bytes) -> bool:
    return compile_filter(text, NOW_MS).matches(content(raw))


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("", ""),
        ("   ", ""),
        ("Emma", 'text.contains("Emma")'),
        ("Emma Thompson", 'text.contains("Emma") && text.contains("Thompson")'),
        ('"Emma Thompson"', 'text.contains("Emma Thompson")'),
        ("region=eu", 'properties["region"] == "eu"'),
        ('name="a \\"b\\"" x', 'properties["name"] == "a \\"b\\"" && text.contains("x")'),
        ("A-17 a@b.org", 'text.contains("A-17") && text.contains("a@b.org")'),
        ("10:30 北京", 'text.contains("10:30") && text.contains("北京")'),
        ("size", 'text.contains("size")'),
        ("true", "true"),
        ("body.paid", "body.paid"),
        ('"a" in tags', '"a" in tags'),
        ("size>10", "size>10"),
        ("a==b", None),
        ("a=", None),
        ("a=b=c", None),
    ],
)  # fmt: skip
def test_plain_words_become_expressions(text: str, expression: str | None) -> None:
    if expression is None:
        with pytest.raises(FilterError):
            compile_filter(text, NOW_MS)
    else:
        assert compile_filter(text, NOW_MS).expression == expression


@pytest.mark.parametrize(
    ("text", "does"),
    [
        ("body.amount > 100", True),
        ("body.amount > 100.5 && body.amount < 121", True),
        ("body.customer.name.startsWith('Em')", True),
        ("body.customer['name'].matches('^E.*a$')", True),
        ("body.lines.exists(line, line.count == 2)", True),
        ("body.lines.all(line, line.count > 1)", False),
        ("size(body.lines) == 2", True),
        ("'express' in tags && !('slow' in tags)", True),
        ("properties.region in ['eu', 'us']", True),
        ("'region' in properties", True),
        ("int(properties.number) >= 17", True),
        ("has(body.customer.phone)", False),
        ("body.phone == 'x'", False),
        ("!(body.phone == 'x')", False),
        ("body.phone == 'x' || properties.region == 'eu'", True),
        ("body.customer > 5", False),
        ("body.amount == '120'", False),
        ("int(properties.region) == 1", False),
        ("1 / (size - size) == 1", False),
        ("id == 'm1' && sequence == 5 && size > 100", True),
        ("time > now - duration('2s') && time < now", True),
        ("created == timestamp('2023-11-14T22:13:15Z')", True),
        ("Emma eu", True),
        ("emma", False),
        ("qmq_app", False),
        ("region=eu number=17", True),
    ],
)
def test_what_matches(text: str, does: bool) -> None:
    body = {"amount": 120, "customer": {"name": "Emma"}, "lines": [{"count": 1}, {"count": 2}]}
    raw = message(body, ("express",), region="eu", number="17", qmq_appCode="qmq_app")
    assert matches(text, raw) is does


def test_bodies() -> None:
    big = {"text": "x" * 9_000 + "Emma", "n": 1}
    assert matches("body.n == 1 && body.text.endsWith('Emma')", message(big)), "in parts"
    assert matches("xEmma", message(big))
    assert matches("body.n == '1'", message(n="1")), "properties without data are the body"
    assert matches("body == 'no json'", message("no json"))
    assert matches("body == ''", message(""))
    deep = "[" * 20_000 + "]" * 20_000
    assert matches("body.startsWith('[[')", message(deep)), "too deep: text"
    large = json.dumps({"items": ["x" * 80] * 90_000, "last": 7})
    assert len(large) > 7 << 20
    assert matches("body.last == 7", message(large))


def test_bytes_that_are_no_utf_8_are_read_with_replacements() -> None:
    raw = message('{"a": "bcd"}').replace(b"bcd", b"b\xffd")
    assert matches("body.a == 'b\ufffdd'", raw)
    assert matches("b\ufffdd", raw)


def test_costs() -> None:
    long = message("[" + ",".join(["1"] * 20_000) + "]")
    with pytest.raises(TooCostly, match="sequence 5"):
        matches("body.exists(x, x == 2)", long)
    squared = message("[" + ",".join(["1"] * 200) + "]")
    with pytest.raises(TooCostly):
        matches("body.exists(x, body.exists(y, x + y == 3))", squared)
    backtracking = message("a" * 30_000 + "b")
    assert not matches("body.matches('^(a+)+$')", backtracking)


def test_limits_of_the_text() -> None:
    assert compile_filter("a" * 4_000, NOW_MS).searched == ["properties", "body"]
    for text, why in (
        ("a" * 10_000, "has 10000 characters; the limit is 4000"),
        ("(" * 40 + "true" + ")" * 40, "nested too deeply"),
        ("a " * 101, "101 words"),
        ("[" + "1," * 1_100 + "1] == []", "names, values and operators"),
        ("body.x == '\ud800'", "not text"),
        ("{'a': 1}", "of type map"),
    ):
        with pytest.raises(FilterError, match=why.replace("(", "\\(")):
            compile_filter(text, NOW_MS)


def test_errors_have_their_place() -> None:
    with pytest.raises(FilterError) as caught:
        compile_filter("size > 1 &&\n  bodi.x == 2", NOW_MS)
    assert (caught.value.line, caught.value.column) == (2, 7)
    assert "did you mean 'body'?" in str(caught.value)


def test_several_filters_must_all_match() -> None:
    both = compile_filters(["region=eu || true", "", "size > 1"][1:], NOW_MS)
    assert both.expression == "size > 1"
    both = compile_filters(["'a' in tags || 'b' in tags", "size > 100000"], NOW_MS)
    assert not both.matches(content(message({}, ("a",))))
    assert compile_filters([], NOW_MS).expression == ""


def test_what_is_searched() -> None:
    assert compile_filter("Emma region=eu", NOW_MS).searched == ["properties", "body"]
    assert compile_filter("region=eu", NOW_MS).searched == ["properties"]
    assert compile_filter("time > now && size > 1", NOW_MS).searched == ["size", "time"]


# --- needs --------------------------------------------------------------------------------------------------------------

FILTERS = [
    "region=eu", "Emma", "body.name == 'Emma'", "body.name == 'E\"m'", "body.name.contains('mm')", "'vip' in tags",
    "id == 'm2'", "body.name in ['Emma', 'Li']", "'region' in properties", "size > 150", "size <= 150 && properties.region != ''",
    "properties.region.startsWith('eur')", "body.lines.exists(line, line.sku == 'A-17')", "'Emma' == body.name",
    "time < now - duration('1h')", "time >= timestamp('2023-11-14T22:13:19Z')", "100 < size || 'vip' in tags",
    "!(id == 'm2')", "body.name == 'Emma' || size > 1000", "body == 'Emma'", "properties.note == ''", "text.contains('Emma\\nLi')",
    "body.name == 'Li' ? true : id == 'm2'", "body.name != 'Emma'", "text.contains('zz')", "size == sequence",
]  # fmt: skip
MESSAGES = [
    message({"name": "Emma"}, region="eu"),
    message('{"name": "Em\\u006da"}', ("vip",), region="europe"),
    message('{"name": "E\\"m"}', message_id="m2"),
    message({"name": "Li", "lines": [{"sku": "A-17"}, {"sku": "B"}]}, note=""),
    message("Emma", note="x" * 1_000),
    message(name="Emma", region="eu"),
    message({"pad": "y" * 8_185, "name": "Emma"}, region="eu"),
    message("eyJuYW1lIjogIkVtbWEifQ==", qmq_contentEncoding="base64"),
    message({"name": "zz"}).replace(b"zz", b"\xffz"),
    message(None, note="Emma", other="Li"),
]


@pytest.mark.parametrize("text", FILTERS)
def test_what_matches_has_what_the_filter_needs(text: str) -> None:
    found = compile_filter(text, NOW_MS)
    need = needs_of(found.tree, found.now)
    gap = b"Emma region eu"
    data, begins, ends = b"", [], []
    for raw in MESSAGES:
        data += gap
        begins.append(len(data))
        data += raw
        ends.append(len(data))
    times = np.array([NOW_MS - 1_000 - 3_600_000 * (i % 2) for i in range(len(MESSAGES))])
    sizes = np.array([len(raw) for raw in MESSAGES])
    may = by_index(need, sizes, times)
    mask = by_bytes(need, Spans(data, np.array(begins), np.array(ends)))
    may = may if mask is None else may & mask
    does = [found.matches(content(raw, 5, int(at))) for raw, at in zip(MESSAGES, times, strict=True)]
    assert [i for i, is_match in enumerate(does) if is_match and not may[i]] == []


@pytest.mark.parametrize(
    ("text", "rejected"),
    [
        ("region=eu", 7),
        ("id == 'm2'", 9),
        ("size > 1000", 8),
        ("body.name == 'Nobody'", 7),
        ("time > now - duration('10m')", 5),
    ],
)
def test_needs_rule_messages_out(text: str, rejected: int) -> None:
    found = compile_filter(text, NOW_MS)
    need = needs_of(found.tree, found.now)
    data = b"".join(MESSAGES)
    ends = np.cumsum([len(raw) for raw in MESSAGES])
    begins = ends - [len(raw) for raw in MESSAGES]
    times = np.array([NOW_MS - 1_000 - 3_600_000 * (i % 2) for i in range(len(MESSAGES))])
    may = by_index(need, ends - begins, times)
    mask = by_bytes(need, Spans(data, begins, ends))
    may = may if mask is None else may & mask
    assert len(MESSAGES) - int(may.sum()) == rejected


NUMBERS = [
    "12", "-3", "0", "007", "+5", " 7 ", "1_000", "1e3", "2.5", "inf", "-inf", "nan", "", "x", "0x10", "\u0663", "9" * 19,
    "9" * 400, "0" * 40 + "5", "-", ".5", "5.", "12abc", "\t7\v", "1,5",
]  # fmt: skip
NUMBERED = [
    *(message(amount=text) for text in NUMBERS),
    message(),
    message(amounts="7", xamount="7"),
    # The bytes of the property inside another value, and behind the end of what that claims.
    message(zero="\0\6amount\0\1" + "9", amount="7"),
    message(zero="\0\6amount\0\x7f", amount="7"),
    message(zero="\0\6amount"),
]


@pytest.mark.parametrize("operator", ["==", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize(
    ("conversion", "values"),
    [("int", ["7", "-3", "0", "1000", "9223372036854775807"]), ("double", ["2.5", "7.0", "-3.0", "1000.0", "1e300"])],
)
def test_a_message_with_the_number_is_not_ruled_out(operator: str, conversion: str, values: list[str]) -> None:
    ends = np.cumsum([len(raw) for raw in NUMBERED])
    spans = Spans(b"".join(NUMBERED), ends - [len(raw) for raw in NUMBERED], ends)
    for value in values:
        for text in (
            f"{conversion}(properties.amount) {operator} {value}",
            f"{value} {operator} {conversion}(properties['amount'])",
        ):
            found = compile_filter(text, NOW_MS)
            mask = by_bytes(needs_of(found.tree, found.now), spans)
            assert mask is not None
            does = [found.matches(content(raw)) for raw in NUMBERED]
            assert [i for i, is_match in enumerate(does) if is_match and not mask[i]] == [], text
            assert not mask.all(), text


def test_numbers_rule_messages_out() -> None:
    amounts = [message(amount=str(number)) for number in range(100)]
    ends = np.cumsum([len(raw) for raw in amounts])
    spans = Spans(b"".join(amounts), ends - [len(raw) for raw in amounts], ends)
    for text, wanted in (
        ("int(properties.amount) >= 90", list(range(90, 100))),
        ("3.0 > double(properties.amount)", [0, 1, 2]),
        ("int(properties.amount) == 7 || int(properties.amount) == 99", [7, 99]),
        ("int(properties.amount) != 7", [*range(7), *range(8, 100)]),
    ):
        found = compile_filter(text, NOW_MS)
        assert np.flatnonzero(by_bytes(needs_of(found.tree, found.now), spans)).tolist() == wanted, text


@pytest.mark.parametrize("text", ["body.a > 1", "!(properties.region == 'x')", "body.a == 'x' || body.b > 1", "true"])
def test_where_nothing_is_needed_nothing_is_ruled_out(text: str) -> None:
    found = compile_filter(text, NOW_MS)
    need: Need = needs_of(found.tree, found.now)
    assert need == Anything()


def test_the_page_of_the_language_lists_all_variables() -> None:
    page = (Path(__file__).parents[4] / "docs/reference/filters.md").read_text()
    assert [name for name in VARIABLES if f"| `{name}` |" not in page] == []
    examples = [
        line.split("`")[1]
        for line in page.partition("## Examples")[2].partition("\n## ")[0].splitlines()
        if line.startswith("| `")
    ]
    assert len(examples) > 8
    for text in examples:
        compile_filter(text, NOW_MS)


def test_now_is_a_time_of_the_search() -> None:
    assert compile_filter("time < now", NOW_MS).now == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
