"""Codes that the REST API answers with, by status, as they are in the source."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from rest_framework import exceptions

from tests.support.servers.processes import PROJECT

FOLDERS = ("api", "console/accounts", "console/alerts/services", "console/analytics", "console/cluster", "console/jobs",
           "console/outbox", "metaserver/services")  # fmt: skip
"""Where requests of the API are answered."""
FILES = ("console/http/admission.py", "console/cursors.py", "console/saved_filters.py")
STATUSES = {
    "AuthenticationFailed": 401, "PermissionDenied": 403, "NotAllowed": 403, "NotFound": 404, "Conflict": 409, "only_one": 409,
    "Stale": 412, "ChangeRefused": 400, "check_wire_name": 400, "QmqError": 503, "ConnectionLost": 503, "CallTimeout": 503,
}  # fmt: skip
"""Of what is raised with a code, by its name; others have their status as first argument."""
WITH_STATUS = ("Problem", "_respond", "problem_response", "Refusal")
OF_FRAMEWORK = (
    exceptions.MethodNotAllowed, exceptions.NotAcceptable, exceptions.NotAuthenticated, exceptions.ParseError,
    exceptions.Throttled, exceptions.UnsupportedMediaType, exceptions.ValidationError,
)  # fmt: skip
"""Errors of REST framework that have no code of ours."""
_OF_DATABASES = tuple(
    f"database.{word}"
    for word in (
        "access_denied", "address_forbidden", "conflict", "driver_missing", "statement_failed", "table_differs",
        "table_missing", "timeout", "unreachable",
    )
)  # fmt: skip
ELSEWHERE = {
    400: (
        "apply.invalid", "delay.too_far", "protocol.misuse", "request.unknown_field", "request.unknown_parameter", *_OF_DATABASES,
    ),
    403: ("access.reauthenticate",),
    409: ("delayed.count_differs", "switch_over.rejected"),
    412: ("change.stale",),
    503: ("database.away", "database.busy", "net.timeout", "net.unreachable", *_OF_DATABASES),
}  # fmt: skip
"""Codes that are put together, or raised by the client with which the console asks nodes."""
PASSED_ON = frozenset({
    "client.message_too_large", "client.no_space", "client.route_unknown", "client.send_failed", "delay.bad_query",
    "delay.busy", "delay.error", "delay.group_unknown", "delay.limit_reached", "delay.no_group", "delay.not_master",
    "delay.subject_missing", "delay.too_much", "delay.unsupported", "filter.invalid", "filter.too_costly",
    "group.in_use", "group.retry_position", "group.unknown", "net.answer_too_large", "net.connection_lost",
    "net.too_many_pending", "node.not_json", "node.refused", "node.unusable", "outbox_database.password_unreadable",
    "reading.busy", "reading.range_wrong", "reading.refused", "reading.unreadable", "repair.rejected", "scan.busy",
    "scan.failed", "scan.replaced", "secret.unreadable", "subject.closed", "subject.over_limit", "subject.over_quota",
})  # fmt: skip
"""Codes that nodes answer, and that the clients with which the console asks them raise, which the API passes on."""
_CODE = re.compile(r"[a-z_]+\.[a-z_]+")


def api_codes() -> Mapping[int, frozenset[str]]:
    """Return the codes of problems by status."""
    found: dict[int, set[str]] = defaultdict(set)
    for status, codes in ELSEWHERE.items():
        found[status].update(codes)
    for error in OF_FRAMEWORK:
        found[error.status_code].add(f"request.{error.default_code}")
    trees = [ast.parse(path.read_text()) for path in _files()]
    kinds = {kind for tree in trees for kind in _kinds(tree)}
    names = {name: value for tree in trees for name, value in _constants(tree)}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                for status, code in _codes_of(node, names):
                    found[status].update(f"{kind}{code}" for kind in kinds) if code[0] == "." else found[status].add(
                        code
                    )
    return {status: frozenset(codes) for status, codes in sorted(found.items())}


def codes_of_code() -> tuple[set[str], set[str]]:
    """Return all texts that may be codes, and the last words of those that are put together (`f"{kind}.unknown"`)."""
    codes, endings = set(), set()
    for folder in ("api", "console", "metaserver", "qmq", "qmq_node", "broker_node", "delay_node"):
        for path in (PROJECT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    codes.add(node.value)
                elif isinstance(node, ast.JoinedStr) and isinstance(last := node.values[-1], ast.Constant):
                    endings.add(str(last.value))
    return codes, endings


def _files() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from sorted((PROJECT / folder).rglob("*.py"))
    for name in FILES:
        yield PROJECT / name


def _kinds(tree: ast.Module) -> Iterator[str]:
    """The kinds of resources, which the codes of their errors begin with."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node) == "Resource":
            yield from (str(ast.literal_eval(word.value)) for word in node.keywords if word.arg == "kind")


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and isinstance(node.value, ast.Constant)
        ):
            yield node.targets[0].id, str(node.value.value)


def _name(call: ast.Call) -> str:
    function = call.func
    return (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )


def _codes_of(call: ast.Call, names: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Status and codes of an error that is made; a code that begins with '.' follows the kind of a resource."""
    name = _name(call)
    if name in WITH_STATUS and call.args and isinstance(call.args[0], ast.Constant):
        status = call.args[0].value
    elif name in STATUSES:
        status = STATUSES[name]
    else:
        return
    for value in (*call.args, *(word.value for word in call.keywords if word.arg == "code")):
        text = ""
        if isinstance(value, ast.Constant):
            text = str(value.value)
        elif isinstance(value, ast.Name):
            text = names.get(value.id, "")
        elif isinstance(value, ast.JoinedStr) and ast.unparse(value).startswith(("f'{self.kind}", 'f"{self.kind}')):
            yield int(str(status)), str(ast.literal_eval(value.values[-1]))
        if _CODE.fullmatch(text):
            yield int(str(status)), text


def table() -> str:
    """The codes as a table of a page."""
    rows = [
        f"| {status} | {', '.join(f'`{code}`' for code in sorted(codes))} |" for status, codes in api_codes().items()
    ]
    return "\n".join(["| Status | Codes |", "|---|---|", *rows])
