"""Attacks on a whole running system."""
