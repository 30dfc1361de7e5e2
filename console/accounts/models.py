"""Users, their teams, and tokens of machines."""

from django.contrib.auth.models import AbstractUser
from django.db import models

from console.accounts.roles import Role
from metaserver.versioned import Versioned


class User(Versioned, AbstractUser):
    """A person."""

    role = models.CharField(max_length=10, choices=[(r.value, r.value) for r in Role], default=Role.VIEWER)
    teams = models.ManyToManyField("metaserver.Team", blank=True, related_name="members")
    language = models.CharField(max_length=10, blank=True)
    preferences = models.JSONField(default=dict)
    """As `console.accounts.preferences` allows."""
    sign_in_generation = models.PositiveIntegerField(default=0)
    """Part of the keys that failed sign-ins are counted under (`console.accounts.lockout`)."""
    updated_at = models.DateTimeField(auto_now=True)

    class Meta(AbstractUser.Meta):
        swappable = "AUTH_USER_MODEL"
        ordering = ("username",)


class ApiToken(models.Model):
    """A machine's right to ask, in a user's name. The token itself is shown once and kept as a digest."""

    name = models.CharField(max_length=100)
    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    prefix = models.CharField(max_length=12, unique=True)
    """The token's first characters: they locate the row and identify tokens in lists."""
    digest = models.CharField(max_length=64)
    scopes = models.JSONField(default=list)
    expires_at = models.DateTimeField()
    created_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    last_used_from = models.CharField(max_length=100, blank=True)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}...)"


class UserSession(models.Model):
    """A browser that is signed in.

    Django's session contains the ID of this row; without the row it is not authenticated, so deleting rows ends sessions.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="sessions")
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    """Its newest request, to within SEEN_SECONDS."""
    address = models.CharField(max_length=100, blank=True)
    user_agent = models.CharField(max_length=200, blank=True)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"session {self.pk} of {self.user_id}"


class KnownAddress(models.Model):
    """An address that a user signed in from (`console.accounts.known`)."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="known_addresses")
    address = models.CharField(max_length=100)
    seen_at = models.DateTimeField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=("user", "address"), name="one_row_per_user_and_address"),)

    def __str__(self) -> str:
        return f"{self.address} of {self.user_id}"
