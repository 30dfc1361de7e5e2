"""A Java that only says its version."""

from pathlib import Path


def fake_java(folder: Path, text: str) -> Path:
    """A program that says it is a Java of some version, and what it was called with."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\nif [ \"$1\" = -version ]; then echo '{text}' >&2; else printf '%s\\n' \"$@\"; fi\n")
    path.chmod(0o755)
    return path
