"""Programs that use PyQMQ; not part of the wheel."""
