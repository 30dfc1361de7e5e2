"""The rule of ownership: which teams can change which objects. Pure, so that every layer can apply it."""

from collections.abc import Set


def may_change(owner: str | None, teams: Set[str] | None) -> bool:
    """Return whether a member of these teams may change what a team owns.

    Args:
        owner: the owning team; None or "" for what no team owns, which every operator may change.
        teams: the teams of the caller; None for an administrator or a process of the system, which may change everything.
    """
    return teams is None or not owner or owner in teams
