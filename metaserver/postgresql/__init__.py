"""Django's PostgreSQL backend with connections that don't wait for ever."""
