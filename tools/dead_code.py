"""Finds functions, methods, properties and classes that the product does not use, only tests at most.

`python -m tools.dead_code` lists them and exits with 1. Vulture compares names, so one that is used anywhere counts as used. What
frameworks call by name is listed here, or named in a string of the settings and of pyproject.toml. A function that calls itself
counts as used for Vulture, so those are compared here.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from vulture.core import Vulture

PROJECT = Path(__file__).resolve().parent.parent
PACKAGES = (
    "api", "broker_node", "console", "delay_node", "metaserver", "qmq", "qmq_node", "qmq_testing", "spark_analytics", "tools",
)  # fmt: skip
NAMED_IN = ("pyproject.toml", "console/settings.py", "deploy/systemd/*.service")
"""Files that name what others import."""
CALLED_BY = {
    "Django": (
        "*Config", "run_from_argv", "process_exception", "validate", "get_help_text", "_get_socket", "_get_session_from_db",
        "_aget_session_from_db", "not_found", "bad_request", "csrf_refused", "console/checks.py:*",
        "qmq/integrations/django/outbox/checks.py:*", "OutboxMessage",
    ),
    "Django REST framework": ("api/*:get_*", "has_permission", "authenticate_header", "patch"),
    "drf-spectacular": ("*Scheme", "*Schema", "map_serializer_field"),
    "django-allauth": (
        "is_open_for_signup", "is_auto_signup_allowed", "pre_authenticate", "pre_social_login", "get_totp_issuer",
        "_rollback_login_failed_rl_usage",
    ),
    "Celery": ("apply_entry", "run_job", "_restrict_files", "_stop_jobs"),
    "Spark": (
        "partitions", "streamReader", "initialOffset", "getDefaultReadLimit", "prepareForTriggerAvailableNow", "latestOffset",
    ),
    "pytest": ("pytest_*", "qmq_time"),
    "the standard library": ("__getattr__", "readinto", "redirect_request"),
    "applications": ("*Middleware", "MessageContextFilter", "handlers_max", "close_producer", "qmq/outbox/*:*Outbox"),
    "migrations": ("ddl_statements",),
    "programs with transactions": ("qmq/outbox/*:*Outbox",),
    "serializers, as `source`": ("held_ratio", "choices_sorted"),
}  # fmt: skip
"""Patterns of names, with a path where others may have the name, by who calls them."""
_DOTTED = re.compile(r"[\w.:]+")


def unused(packages: tuple[str, ...] = PACKAGES, project: Path = PROJECT) -> Iterator[str]:
    """Yield where something is defined that the product does not use, and its name."""
    # The decorator registers what it is given.
    found = Vulture(ignore_decorators=["@_job"])
    found.scavenge([str(project / package) for package in packages], exclude=["*/migrations/*"])
    called = [name if ":" in name else f"*:{name}" for names in CALLED_BY.values() for name in names]
    named = set(_names(project))
    for item in (*found.unused_classes, *found.unused_funcs, *found.unused_methods, *found.unused_props):
        path = Path(item.filename).relative_to(project)
        if item.name not in named and not any(fnmatchcase(f"{path}:{item.name}", pattern) for pattern in called):
            yield f"{path}:{item.first_lineno}: nothing uses the {item.typ} {item.name}"
    yield from _used_by_themselves(packages, project)


def _used_by_themselves(packages: tuple[str, ...], project: Path) -> Iterator[str]:
    """Yield the functions of modules that only they themselves call."""
    uses, recursive = Counter[str](), list[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef, int]]()
    for path in (path for package in packages for path in sorted((project / package).rglob("*.py"))):
        tree = ast.parse(path.read_text())
        uses.update(_uses(tree))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (own := [*_uses(node)].count(node.name)):
                recursive.append((path.relative_to(project), node, own))
    for path, node, own in recursive:
        if uses[node.name] == own:
            yield f"{path}:{node.lineno}: nothing but itself uses the function {node.name}"


def _uses(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name


def _names(project: Path) -> Iterator[str]:
    for pattern in NAMED_IN:
        for path in project.glob(pattern):
            for dotted in _DOTTED.findall(path.read_text()):
                yield from re.split(r"[.:]", dotted)


if __name__ == "__main__":
    problems = sorted(unused())
    print("\n".join(problems))
    sys.exit(bool(problems))
