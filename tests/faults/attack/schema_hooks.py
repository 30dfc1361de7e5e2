"""Hooks that Schemathesis runs with (test_schema.py): credentials, client addresses, and what a run must not do to itself.

The command line of Schemathesis imports this module; PLAN names the file of the run's plan.
"""

import atexit
import itertools
import json
import os
import re
from pathlib import Path
from typing import Any

import schemathesis
from schemathesis.core.failures import AcceptedNegativeData

PLAN = "QMQ_SCHEMA_PLAN"
"""Environment variable: path of the plan, JSON. `credentials` is a list of `{headers, cookies}`, empty for an anonymous caller;
`dry_runs` maps the label of an operation to a path parameter and its values that are changed only in dry runs (null: all);
`statuses` is the path of a file to write: the statuses of all responses by label."""
REQUESTS_OF_ADDRESS = 300
"""Requests sent as one client address: fewer than an address may send in a minute without a valid credential."""

_plan = json.loads(Path(os.environ[PLAN]).read_text())
_credentials = itertools.cycle(_plan["credentials"])
_requests = itertools.count()
_statuses: dict[str, set[int]] = {}

if _plan["credentials"]:

    @schemathesis.auth(refresh_interval=None)
    class Credentials:
        """Uses the caller's credentials in turn: each has a rate limit of its own."""

        def get(self, case: Any, context: Any) -> Any:
            """Returns the next credential."""
            return next(_credentials)

        def set(self, case: Any, data: Any, context: Any) -> None:
            """Adds a credential to a request."""
            case.headers.update(data["headers"])
            case.cookies.update(data["cookies"])


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Adapts a request before it is sent."""
    number = next(_requests)
    address = number // REQUESTS_OF_ADDRESS
    case.headers["X-Forwarded-For"] = f"10.0.{address >> 8}.{address & 255}"
    if case.operation.label in _plan["dry_runs"]:
        parameter, values = _plan["dry_runs"][case.operation.label]
        is_own = values is None or str(case.path_parameters.get(parameter)) in values
        given = case.query.get("dry_run")
        # An illegal value stays: it is refused.
        if is_own and (given in (None, False, 0, "false", "0") or isinstance(given, list)):
            case.query["dry_run"] = "true"
    # Schemathesis sends the same valid key and version with most requests of an operation, which end in 409, 412 and 422 then.
    if number % 5:
        if re.fullmatch("[!-~]{1,100}", str(case.headers.get("Idempotency-Key", ""))):
            case.headers["Idempotency-Key"] = str(number)
        if re.fullmatch(r'(W/)?"v[0-9]{1,18}"', str(case.headers.get("If-Match", ""))):
            case.headers["If-Match"] = "*"
    if "/alert-channels/" in case.path and isinstance(case.body, dict):
        # Alerts of the run are delivered: nothing is sent to hosts and mailboxes that were made up.
        if str(case.body.get("url")).startswith("http"):
            case.body["url"] = "http://127.0.0.1:9/"
        if isinstance(case.body.get("addresses"), list):
            case.body["addresses"] = ["alerts@example.invalid" if "@" in str(a) else a for a in case.body["addresses"]]


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    """Notes the status of a response."""
    _statuses.setdefault(case.operation.label, set()).add(response.status_code)


@atexit.register
def _write_statuses() -> None:
    found = {label: sorted(statuses) for label, statuses in _statuses.items()}
    Path(_plan["statuses"]).write_text(json.dumps(found))


@schemathesis.hook
def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
    """Drops failures of two kinds of values in the query, which count as in a form: an empty value as an absent one, and of a
    parameter that is repeated the last value."""
    if not isinstance(failure, AcceptedNegativeData) or case.meta is None:
        return True
    data = case.meta.phase.data
    illegal = {getattr(data, "parameter", None), *(mutation.parameter for mutation in getattr(data, "mutations", ()))}
    lists = {each.name for each in case.operation.query if each.definition.get("schema", {}).get("type") == "array"}
    values = {name: value for name, value in case.query.items() if name in illegal}
    return not any(value == "" or (isinstance(value, list) and name not in lists) for name, value in values.items())
