"""Checks the words of names in code: those that Python binds (variables, arguments, attributes, functions, classes), and those that
TypeScript uses, and those of their files.

docs/glossary.md lists the words, in the table of its section "Names in code".
"""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

SECTION = "## Names in code"
PYTHON = (
    "api",
    "broker_node",
    "console",
    "delay_node",
    "examples",
    "metaserver",
    "qmq",
    "qmq_node",
    "qmq_testing",
    "spark_analytics",
    "tools",
)
TYPESCRIPT = "frontend/src"
ALLOWED = {
    "CELERY_BEAT_SCHEDULER": "a setting of Celery",
    "beat_schedule": "a setting of Celery",
    "LetterCount": "a component of the API",
    "LetterCounts": "a component of the API",
    "LetterPage": "a component of the API",
    "LetterRow": "a component of the API",
    "LetterStory": "a component of the API",
    "beats": "a field of the collector's stored health",
    "last_beat_at": "a field of the collector's stored health",
    "last_beat_ms": "a field of the collector's stored health",
    "MetaserverBeat": "names a database table",
    "is_told": "a field of the API",
    "is_heard": "a field of the API",
    "letter": "a query parameter of the console's addresses",
    "letters_of_one_request": "a field of the API",
    "looked_at": "a field of the API",
    "nodes_asked": "a field of the API",
}
"""Names that keep a word of the list, and why."""
_TERMS = re.compile(r"dead_letters?|celery_beat")
"""Terms of the glossary, and names of others, that contain a word of the list."""
_EXEMPT = ("frontend/src/test",)
"""What tests call the requests that they answered."""
_NO_CODE = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`", re.S)
"""Comments and strings of TypeScript."""
_INSERTED = re.compile(r"\$\{([^}]*)\}")
"""Code in a template string."""
_NAME = re.compile(r"[A-Za-z_$][\w$]*")


def words_of(name: str) -> str:
    """Return the words of a name in lower case, joined by underscores: `isLetterTold` is `is_letter_told`."""
    apart = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name))
    return apart.lower()


def bound_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of everything that a Python source binds, which excludes the names of other projects that it uses."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.alias) and node.asname:
            yield node.lineno, node.asname
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.lineno, node.name


def used_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of everything in a TypeScript source outside of comments and strings."""

    def without_text(match: re.Match[str]) -> str:
        inserted = " ".join(_INSERTED.findall(match.group())) if match.group().startswith("`") else ""
        return inserted + "\n" * (match.group().count("\n") - inserted.count("\n"))

    code = _NO_CODE.sub(without_text, source)
    for number, line in enumerate(code.splitlines(), 1):
        for name in _NAME.findall(line):
            yield number, name


def forbidden(name: str, words: dict[str, str]) -> str | None:
    """Return the first word of a name that names do not use, or None."""
    if name in ALLOWED:
        return None
    parts = _TERMS.sub("", words_of(name)).split("_")
    return next((word for word in words if word in parts), None)


def names_in(project: Path) -> Iterator[tuple[str, str]]:
    """Yield place and name of the names that the check reads, each once per file."""
    for folder in PYTHON:
        for path in sorted((project / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path.relative_to(project).as_posix(), path.stem
                yield from _once(project, path, bound_names)
    for path in sorted((project / TYPESCRIPT).rglob("*.ts*")):
        if not path.name.endswith((".test.ts", ".test.tsx", ".gen.ts")):
            yield path.relative_to(project).as_posix(), path.name.partition(".")[0]
            yield from _once(project, path, used_names)


def _once(project: Path, path: Path, names_of: Callable[[str], Iterator[tuple[int, str]]]) -> Iterator[tuple[str, str]]:
    place = path.relative_to(project).as_posix()
    if place.startswith(_EXEMPT):
        return
    seen: set[str] = set()
    for line, name in names_of(path.read_text()):
        if name not in seen:
            seen.add(name)
            yield f"{place}:{line}", name
