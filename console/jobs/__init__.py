"""Background jobs: one module for each kind, the table of all, and the Celery app that runs them."""
