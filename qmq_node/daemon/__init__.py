"""A process that serves frames on one port and admin pages on another."""
