"""Runs of a whole system under faults, and what must hold after each."""
