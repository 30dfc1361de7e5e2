"""Disks that fail, remember or watch."""
