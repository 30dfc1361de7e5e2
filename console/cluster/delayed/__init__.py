"""Delayed messages for the API: lists over all delay groups with a cursor, one message, and changes with audit entries."""
