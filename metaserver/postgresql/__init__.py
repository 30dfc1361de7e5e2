"""Django's PostgreSQL backend with connections that time out."""
