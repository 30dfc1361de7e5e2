"""A member that leads: it sends commits to slaves and counts their confirmations."""
