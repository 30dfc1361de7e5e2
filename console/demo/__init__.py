"""The demo: an online shop that makes a system look lived in. Loaded by `manage.py demo` through the system's public ways."""
