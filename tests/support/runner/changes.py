"""Which files of the project the present change touches."""

import subprocess
from pathlib import Path

MAIN_BRANCHES = ("origin/main", "main")


def changed_files(project: Path) -> set[str]:
    """Return the paths, relative to the project, that differ from the main branch.

    On the main branch itself, they are those of its last commit. Uncommitted and untracked files count, deleted files do not.
    Without git the set is empty.
    """
    head = _git(project, "rev-parse", "HEAD")
    if head is None:
        return set()
    base = _base(project, head[0])
    changed = _git(project, "diff", "--name-only", "--diff-filter=d", base) if base else []
    untracked = _git(project, "ls-files", "--others", "--exclude-standard")
    return {*(changed or ()), *(untracked or ())}


def _base(project: Path, head: str) -> str | None:
    """Return the commit that the change starts from; None for the first commit of a repository."""
    for branch in MAIN_BRANCHES:
        found = _git(project, "merge-base", "HEAD", branch)
        if found and found[0] != head:
            return found[0]
    parent = _git(project, "rev-parse", "--verify", "--quiet", "HEAD^1")
    return parent[0] if parent else None


def _git(project: Path, *words: str) -> list[str] | None:
    """Return the lines that a git command prints; None when it fails or git is not installed."""
    try:
        done = subprocess.run(["git", *words], cwd=project, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.splitlines() if done.returncode == 0 else None
