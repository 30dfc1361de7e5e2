"""A planned change of master."""
