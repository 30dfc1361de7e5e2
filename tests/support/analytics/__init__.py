"""A day of messages, and what analytics should say of it."""
