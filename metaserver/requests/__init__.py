"""Requests of clients and nodes."""
