"""People with a cluster of real nodes."""

from dataclasses import dataclass

from rest_framework.test import APIClient


@dataclass
class Crew:
    """`own` is in the team that owns subject orders, `other` in another one."""

    admin: APIClient
    own: APIClient
    other: APIClient
    viewer: APIClient
