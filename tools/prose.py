"""Checks the words of texts that users read, those of names in code, and the links and lines of pages: `python -m tools.prose`
lists what is wrong and exits with 1.

Texts are the English catalogue of the console, strings and docstrings of the API, the control plane, the command line and the
client, and the pages of the documentation. docs/glossary.md lists the words, in one table for texts and one for names.
"""

import ast
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools import identifiers

PROJECT = Path(__file__).resolve().parent.parent
GLOSSARY = "docs/glossary.md"
SECTION = "## Words we do not use"
CATALOGUE = "frontend/src/i18n/en"
SOURCES = (
    "api", "broker_node", "console", "delay_node", "metaserver", "qmq", "qmq_node", "qmq_testing", "spark_analytics",
)  # fmt: skip
PAGES = (
    "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/index.md", "docs/client.md", "docs/control.md",
    "docs/accounts.md", "docs/alerts.md", "docs/live.md", "docs/demo.md", "docs/analytics.md", "docs/security.md", "docs/delay.md",
    "docs/conformance.md", "docs/testing.md", "docs/architecture.md", "docs/architecture", "docs/tutorials", "docs/how-to",
    "docs/explanation", "docs/reference/admin.md",
    "docs/reference/cli.md", "docs/reference/errors.md", "docs/reference/limits.md", "docs/reference/metrics.md",
    "docs/reference/python-api.md", "docs/reference/rest-api.md", "docs/reference/spark.md", "docs/reference/wire.md",
)  # fmt: skip
"""Pages whose words are checked; links are checked in all."""
_LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)", re.S)
_HEADING = re.compile(r"^#+ +(.*)$", re.M)
_NO_WORDS = re.compile(r"dead[- ]letters?|letters?,? (?:or )?digits?", re.I)
"""Phrases with a word of the list in another meaning."""
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.S)
_CODE_BLOCK = re.compile(r"^ *```.*?^ *```", re.S | re.M)
_TS_TEXT = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`", re.S)
"""Comments and strings of TypeScript; what looks like a comment in a string is none."""
_GENERATED = re.compile(r"^This page is generated", re.M)
_GENERATED_PART = re.compile(r"<!-- generated: .*?<!-- end of generated -->", re.S)
LINE_CHARS_MAX = 120
"""Of a line of prose in a page."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """What is wrong, and where."""

    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


def forbidden_words(glossary: str, section: str = SECTION) -> dict[str, str]:
    """Return the words that are not used, with the words to use instead, from the table of a section of the glossary.

    Raises:
        ValueError: the glossary has no such table.
    """
    found = glossary.partition(f"{section}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", found, re.M)[1:]
    if not rows:
        raise ValueError(f"{GLOSSARY} has no table of words below '{section}'")
    return {word.strip(): instead.strip() for words, instead in rows for word in words.split(",")}


def check_words(place: str, text: str, words: dict[str, str]) -> Iterator[Finding]:
    """Yield the forbidden words of a text."""
    text = _NO_WORDS.sub("", " ".join(text.split()))
    for word, instead in words.items():
        if re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text, re.I):
            yield Finding(place, f'"{word}" in "{text[:100]}"; use: {instead}')


def catalogue_texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield key and text of everything in a catalogue."""

    def below(key: str, value: object) -> Iterator[tuple[str, str]]:
        if isinstance(value, dict):
            for name, inner in value.items():
                yield from below(f"{key}.{name}", inner)
        else:
            yield key, str(value)

    for path in sorted(folder.glob("*.json")):
        yield from below(path.stem, json.loads(path.read_text()))


def source_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of the strings with more than one word, docstrings included, without log messages."""
    tree = ast.parse(path.read_text())
    left_out: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id == "logger":
                left_out.update(id(inner) for inner in ast.walk(node))
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in left_out
            and " " in node.value.strip()
        ):
            yield node.lineno, node.value


def comments(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of the comments of a Python or TypeScript source; those of consecutive lines are one text."""
    source, found = path.read_text(), []
    if path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                found.append((token.start[0], token.string.lstrip("# ")))
    else:
        for match in _TS_TEXT.finditer(source):
            if match.group().startswith("/"):
                first = source.count("\n", 0, match.start()) + 1
                found += [(first + at, line.strip("/* ")) for at, line in enumerate(match.group().splitlines())]
    begun, text, last = 0, "", -1
    for number, line in found:
        if number != last + 1:
            if text:
                yield begun, text
            begun, text = number, ""
        text, last = f"{text} {line}", number
    if text:
        yield begun, text


def markdown_pages(project: Path) -> list[Path]:
    """Return README, the other pages of the project's folder, and those below docs."""
    return [*sorted(project.glob("*.md")), *sorted((project / "docs").rglob("*.md"))]


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for heading in _HEADING.findall(_CODE.sub(lambda code: code.group() if "\n" not in code.group() else "", text)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found


def check_links(project: Path) -> Iterator[Finding]:
    """Yield links to files and headings that do not exist."""
    pages = {path: path.read_text() for path in markdown_pages(project)}
    for page, text in pages.items():
        place = str(page.relative_to(project))
        for target in _LINK.findall(_CODE.sub("", text)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            path = (page.parent / name).resolve() if name else page
            if not path.exists():
                yield Finding(place, f"link to {target}: there is no such file")
            elif anchor and path.suffix == ".md" and anchor not in anchors(pages.get(path) or path.read_text()):
                yield Finding(place, f"link to {target}: there is no such heading")


def check_lines(place: str, text: str) -> Iterator[Finding]:
    """Yield lines of prose with more than LINE_CHARS_MAX characters.

    Tables, code blocks, headings and lines of one word, such as a long address, are excepted, and pages that are generated.
    """
    if _GENERATED.search(text):
        return
    text = _GENERATED_PART.sub(_empty_lines, _CODE_BLOCK.sub(_empty_lines, text))
    for number, line in enumerate(text.splitlines(), 1):
        is_prose = not line.lstrip().startswith(("|", "#")) and " " in line.strip().lstrip("-*> ")
        if is_prose and len(line) > LINE_CHARS_MAX:
            yield Finding(f"{place}:{number}", f"{len(line)} characters; wrap prose at {LINE_CHARS_MAX}: {line[:60]}")


def _empty_lines(found: re.Match[str]) -> str:
    return "\n" * found.group().count("\n")


def check_names(project: Path, words: dict[str, str]) -> Iterator[Finding]:
    """Yield the names in code that contain a forbidden word."""
    for place, name in identifiers.names_in(project):
        word = identifiers.forbidden(name, words)
        if word is not None:
            yield Finding(place, f'"{word}" in the name {name}; use: {words[word]}')


def check(project: Path) -> list[Finding]:
    """Return everything that is wrong in a project."""
    glossary = (project / GLOSSARY).read_text()
    words = forbidden_words(glossary)
    found = [*check_links(project), *check_names(project, forbidden_words(glossary, identifiers.SECTION))]
    for page in markdown_pages(project):
        found += check_lines(str(page.relative_to(project)), page.read_text())
    for key, text in catalogue_texts(project / CATALOGUE):
        found += check_words(f"{CATALOGUE}/{key}", text, words)
    for folder in SOURCES:
        for path in sorted((project / folder).rglob("*.py")):
            if "migrations" in path.parts:
                continue
            for line, text in (*source_texts(path), *comments(path)):
                found += check_words(f"{path.relative_to(project)}:{line}", text, words)
    for path in sorted((project / identifiers.TYPESCRIPT).rglob("*.ts*")):
        if not path.name.endswith((".test.ts", ".test.tsx", ".gen.ts")):
            for line, text in comments(path):
                found += check_words(f"{path.relative_to(project)}:{line}", text, words)
    for name in PAGES:
        path = project / name
        for page in [path] if path.is_file() else sorted(path.rglob("*.md")):
            for number, text in enumerate(
                _CODE.sub(lambda code: "\n" * code.group().count("\n"), page.read_text()).splitlines(), 1
            ):
                found += check_words(f"{page.relative_to(project)}:{number}", text, words)
    return sorted(found)


def main() -> int:
    """Print the findings; the exit code."""
    findings = check(PROJECT)
    for finding in findings:
        print(finding)
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
