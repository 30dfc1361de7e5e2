"""The HTTP server for operators, and its pages."""
