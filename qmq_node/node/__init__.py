"""A daemon with a message log."""
