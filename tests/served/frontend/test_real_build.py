"""The real front end, built: what its first load weighs, that its page has a place for the nonce, that its types are fresh."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from tests.support.servers.processes import PROJECT
from tools.frontend import Frontend

FIRST_LOAD_BYTES_MAX = 230_000
"""Compressed with gzip: the page, the scripts and styles of its entry, the texts of the layout in one language."""
FILES_MAX = 25
"""Files of one page: its own and what it imports, with those that every page loads and its texts, without charts (23 KB)."""
FILES_BYTES_MAX = 250_000
"""The same, compressed with brotli; tests/served/e2e/test_every_page.py checks what is transferred."""
LANGUAGES = ("src/i18n/en/common.json", "src/i18n/zh/common.json")
"""What the layout says; other texts come with their pages."""
CHARTS = ("uplot", "charts-")

Manifest = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def built() -> Path:
    """What `make frontend` makes, made when it is not there."""
    frontend = Frontend(PROJECT)
    frontend.build()
    return frontend.target


@pytest.fixture(scope="module")
def manifest(built: Path) -> Manifest:
    found: Manifest = json.loads((built / ".vite/manifest.json").read_text())
    return found


def first_load(manifest: Manifest, *more: str) -> dict[str, str]:
    """Chunks that a browser needs before it shows anything, by name, and why; with those of `more`."""
    needed: dict[str, str] = {}

    def need(name: str, why: str) -> None:
        if name not in needed:
            needed[name] = why
            for imported in manifest[name].get("imports", []):
                need(imported, name)

    for name, chunk in manifest.items():
        if chunk.get("isEntry"):
            need(name, "entry")
    for name in more:
        need(name, "page")
    return needed


def files(manifest: Manifest, names: set[str]) -> set[str]:
    return {
        file
        for name in names
        for file in (manifest[name]["file"], *manifest[name].get("css", []), *manifest[name].get("assets", []))
    }


def test_the_first_load_is_light(built: Path, manifest: Manifest, capsys: pytest.CaptureFixture[str]) -> None:
    needed = first_load(manifest)

    def weight(file: str) -> int:
        return len(gzip.compress((built / file).read_bytes(), 9, mtime=0))

    weights = {file: weight(file) for file in {"index.html", *files(manifest, set(needed))}}
    languages = {name: weight(manifest[name]["file"]) for name in LANGUAGES}
    total = sum(weights.values()) + max(languages.values(), default=0)
    with capsys.disabled():
        heaviest = ", ".join(
            f"{file} {size / 1000:.1f}" for file, size in sorted(weights.items(), key=lambda item: -item[1])[:4]
        )
        language = f"a language {max(languages.values(), default=0) / 1000:.1f}"
        print(
            f"\nfirst load: {total / 1000:.1f} of {FIRST_LOAD_BYTES_MAX / 1000:g} KB gzipped ({heaviest}; {language})"
        )
    assert total < FIRST_LOAD_BYTES_MAX, weights
    assert [name for name in needed if any(word in name.lower() for word in CHARTS)] == [], "charts come later"


def test_each_page_has_few_files_and_is_light(
    built: Path, manifest: Manifest, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = files(manifest, set(first_load(manifest, "src/ui/chart/Drawn.tsx")))
    charts = {file for file in drawn if "/charts-" in file and file.endswith(".js")}
    assert charts
    texts = ["src/i18n/en/common.json", "src/i18n/en/alerts.json"]
    pages = [name for name in manifest if name.startswith("src/features/") and name.endswith("Page.tsx")]
    assert len(pages) > 20
    found = {page: files(manifest, set(first_load(manifest, page, *texts))) for page in pages}
    assert [page for page, names in found.items() if names & charts] == [], "charts come when one is drawn"
    weights = {
        page: sum(Path(f"{path}.br" if Path(f"{path}.br").is_file() else path).stat().st_size for path in paths)
        for page, names in found.items()
        for paths in [[built / name for name in names]]
    }
    with capsys.disabled():
        heaviest = max(weights, key=lambda page: weights[page])
        print(f"\nheaviest page: {heaviest} {weights[heaviest] / 1000:.1f} of {FILES_BYTES_MAX / 1000:g} KB")
    assert {page: len(names) for page, names in found.items() if len(names) > FILES_MAX} == {}
    assert {page: weight for page, weight in weights.items() if weight > FILES_BYTES_MAX} == {}


def test_what_counts_as_first_load() -> None:
    manifest = {
        "index.html": {"file": "i.js", "isEntry": True, "imports": ["_a"], "dynamicImports": ["p"], "css": ["i.css"]},
        "_a": {"file": "a.js", "imports": ["_b"]},
        "_b": {"file": "b.js", "imports": ["_a"], "assets": ["font.woff2"]},
        "p": {"file": "p.js", "isDynamicEntry": True, "imports": ["_a", "_c"]},
        "_c": {"file": "c.js"},
    }
    needed = first_load(manifest)
    assert set(needed) == {"index.html", "_a", "_b"}
    assert files(manifest, set(needed)) == {"i.js", "i.css", "a.js", "b.js", "font.woff2"}


def test_the_page_is_served_with_its_nonce_and_its_files(built: Path, settings: Any) -> None:
    settings.FRONTEND_DIR = built
    answer = Client().get("/")
    nonce = answer.headers["Content-Security-Policy"].split("'nonce-")[1].split("'")[0]
    assert f'<meta name="csp-nonce" content="{nonce}" />' in answer.text
    assert "{{" not in answer.text
    assert "<style" not in answer.text
    assert " style=" not in answer.text
    addresses = [part.split('"')[0] for part in answer.text.split('="')[1:] if part.startswith("/static/")]
    assert any(address.endswith(".js") for address in addresses)
    for address in addresses:
        assert Client().get(address).status_code == 200, address
    scripts = answer.text.split("<script")[1:]
    assert scripts
    assert all(' src="/static/assets/' in script.split(">")[0] for script in scripts), "none is inline"


def test_everything_hashed_is_compressed_where_that_helps(built: Path) -> None:
    plain = [
        path for path in (built / "assets").iterdir() if path.suffix in (".js", ".css") and path.stat().st_size > 2000
    ]
    assert plain
    for path in plain:
        assert Path(f"{path}.gz").is_file()
        assert Path(f"{path}.br").is_file()
