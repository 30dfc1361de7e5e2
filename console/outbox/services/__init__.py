"""Changes of registered databases and of their rows."""
