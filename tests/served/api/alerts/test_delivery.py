"""Telling channels: a real HTTP receiver, Django's mail box in memory, and where nothing may be sent."""

import hmac
import json
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from django.core import mail
from django.core.checks import run_checks

from console import host_addresses
from console.alerts import connections
from console.alerts.http import ANSWER_BYTES_MAX, NotDelivered
from console.alerts.models import Alert, AlertChannel, Notification
from console.alerts.notifiers import EmailNotifier, Notifier, WebhookNotifier
from console.alerts.sealing import CHANNELS
from console.alerts.services import Delivered, deliver, delivery, evaluate
from console.alerts.services.channels import create_channel, try_channel, update_channel
from console.alerts.services.rules import create_rule
from tests.served.api.alerts.receiver import ACTOR, Receiver, documented_body
from tests.served.api.alerts.system_state import at, group, lagging, snapshot
from tests.support.manual_clock import ManualClock

pytestmark = pytest.mark.django_db
SECRET = "a secret of the receiver"


@pytest.fixture(autouse=True)
def only_ours() -> None:
    from console.alerts.models import AlertRule

    AlertRule.objects.update(is_enabled=False)


def webhook(url: str, name: str = "hook", **values: Any) -> AlertChannel:
    create_channel("webhook", {"name": name, "url": url, **values}, actor=ACTOR)
    return AlertChannel.objects.get(name=name)


def rule(*channels: str, name: str = "lag", target: str = "*") -> None:
    values = {"name": name, "target": target, "threshold": 100, "severity": "critical", "channels": list(channels)}
    create_rule("lag", values, actor=ACTOR)


def fire(*channels: str, name: str = "lag") -> None:
    """One alert that fires, to be told to these channels."""
    rule(*channels, name=name)
    evaluate(lagging(101), at(0))


class Failing:
    """Fails as often as it is told to; remembers whom it was to tell."""

    batch_max = 1

    def __init__(self, fails: int = 1_000_000) -> None:
        self.fails = fails
        self.sent: list[tuple[str, str, str]] = []

    def send(self, channel: AlertChannel, delivery: str, bodies: Any) -> str:
        self.sent.append((channel.name, delivery, bodies[0]["event"]))
        if self.fails > 0:
            self.fails -= 1
            raise NotDelivered("no")
        return "yes"


def both(notifier: Notifier) -> dict[str, Notifier]:
    return {"webhook": notifier, "email": notifier}


def test_a_webhook_gets_the_alert_signed(receiver: Receiver):
    webhook(receiver.url, secret=SECRET, headers={"Authorization": "Bearer there"})
    fire("hook", name="Slow billing")
    assert deliver(at(1)) == Delivered(delivered=1)
    [(path, headers, body)] = receiver.requests
    assert path == "/hook?key=hidden"
    assert headers["Authorization"] == "Bearer there"
    assert headers["Content-Type"] == "application/json"
    assert headers["X-QMQ-Delivery"] == str(Notification.objects.get().pk)
    stamp, given = (part.partition("=")[2] for part in headers["X-QMQ-Signature"].split(","))
    assert given == hmac.new(SECRET.encode(), f"{stamp}.".encode() + body, sha256).hexdigest()
    said = json.loads(body)
    assert said | {"alert": said["alert"] | {"id": "1"}} == documented_body()
    row, alert = Notification.objects.get(), Alert.objects.get()
    assert (row.state, row.attempts, row.delivered_at, alert.notified_count) == ("delivered", 1, at(1), 1)
    assert AlertChannel.objects.get().last_success_at == at(1)


def test_the_body_has_the_fields_of_the_documentation(receiver: Receiver):
    channel = webhook(receiver.url)
    fire("hook")
    deliver(at(1))
    try_channel(str(channel.pk), now=at(0), actor=ACTOR)
    for body in receiver.bodies():
        assert body.keys() == documented_body().keys()
        assert body["alert"].keys() == documented_body()["alert"].keys()


def test_without_a_secret_nothing_is_signed(receiver: Receiver):
    webhook(receiver.url)
    fire("hook")
    deliver(at(1))
    assert "X-QMQ-Signature" not in receiver.requests[0][1]


def test_what_was_delivered_is_not_delivered_again(receiver: Receiver):
    webhook(receiver.url)
    fire("hook")
    deliver(at(1))
    assert deliver(at(100_000)) == Delivered()
    assert len(receiver.requests) == 1


def test_a_failing_webhook_is_tried_with_growing_pauses_and_given_up(receiver: Receiver):
    webhook(receiver.url)
    fire("hook")
    receiver.status = 500
    now, pauses = at(1), []
    for _ in range(delivery.ATTEMPTS_MAX - 1):
        assert deliver(now) == Delivered(failed=1)
        row = Notification.objects.get()
        pauses.append((row.next_at - now).total_seconds())
        assert row.last_error.endswith("answered 500")
        assert deliver(row.next_at - timedelta(milliseconds=1)) == Delivered()
        now = row.next_at
    assert pauses == [10, 20, 40, 80, 160, 320, 640, 1280, 1800]
    assert deliver(now) == Delivered(given_up=1)
    row, alert = Notification.objects.get(), Alert.objects.get()
    assert (row.state, row.attempts) == ("given_up", delivery.ATTEMPTS_MAX)
    assert (alert.notified_count, alert.failed_count) == (0, 1)
    assert deliver(now + timedelta(days=9)) == Delivered()
    assert len(receiver.requests) == delivery.ATTEMPTS_MAX
    assert AlertChannel.objects.get().last_error.endswith("answered 500")


def test_a_webhook_that_recovers_is_told(receiver: Receiver):
    webhook(receiver.url)
    fire("hook")
    receiver.status = 503
    deliver(at(1))
    receiver.status = 204
    assert deliver(at(11)) == Delivered(delivered=1)
    channel = AlertChannel.objects.get()
    assert (channel.last_failure_at, channel.last_success_at, channel.last_error) == (at(1), at(11), "")
    assert len({headers["X-QMQ-Delivery"] for _, headers, _ in receiver.requests}) == 1


def test_the_end_is_not_told_before_the_beginning():
    webhook("https://example.com/")
    fire("hook")
    notifier = Failing(fails=1)
    deliver(at(1), using=both(notifier))
    evaluate(lagging(0), at(2))
    deliver(at(3), using=both(notifier))
    assert [event for _, _, event in notifier.sent] == ["firing"]
    for second in (11, 12):
        deliver(at(second), using=both(notifier))
    assert [event for _, _, event in notifier.sent] == ["firing", "firing", "resolved"]


def test_a_broken_channel_does_not_hold_up_the_others():
    webhook("https://example.com/", "broken")
    create_channel("email", {"name": "mail", "addresses": ["a@example.com"]}, actor=ACTOR)
    rule("broken", "mail")
    evaluate(snapshot({f"s{n}/g": group(101) for n in range(4)}), at(0))
    broken, mailing = Failing(), Failing(fails=0)
    done = deliver(at(1), using={"webhook": broken, "email": mailing})
    assert (done.delivered, done.failed) == (4, 1)
    assert len(broken.sent) == 1


def test_a_run_is_limited_in_number_and_in_time():
    webhook("https://example.com/")
    rule("hook")
    evaluate(snapshot({f"s{n}/g": group(101) for n in range(5)}), at(0))
    assert deliver(at(1), limit=2, using=both(Failing(fails=0))).delivered == 2
    clock = ManualClock()

    class Slow(Failing):
        def send(self, channel: AlertChannel, delivery: str, bodies: Any) -> str:
            clock.advance(20)
            return super().send(channel, delivery, bodies)

    assert deliver(at(1), using=both(Slow(fails=0)), clock=clock).delivered == 2
    assert delivery.RUN_SECONDS_MAX == 30


@pytest.mark.database
def test_two_processes_share_the_work_and_a_dead_one_loses_nothing():
    webhook("https://example.com/")
    fire("hook")
    other = Failing(fails=0)

    class Meanwhile(Failing):
        """Another process runs while this one sends, and then this one dies."""

        def send(self, channel: AlertChannel, delivery: str, bodies: Any) -> str:
            assert deliver(at(1), using=both(other)) == Delivered()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deliver(at(1), using=both(Meanwhile()))
    assert Notification.objects.get().state == "waiting"
    assert deliver(at(delivery.CLAIM_SECONDS), using=both(other)) == Delivered()
    assert deliver(at(1 + delivery.CLAIM_SECONDS), using=both(other)) == Delivered(delivered=1)
    assert len(other.sent) == 1


@pytest.mark.database
def test_what_two_processes_read_is_sent_by_one(monkeypatch: pytest.MonkeyPatch):
    webhook("https://example.com/")
    fire("hook")
    notifier = Failing(fails=0)
    look = delivery._waits_for_another

    def other_goes_first(row: Notification) -> bool:
        monkeypatch.setattr(delivery, "_waits_for_another", look)
        # Another process, which read the same, has claimed it and is about to send.
        Notification.objects.filter(pk=row.pk).update(attempts=1)
        return look(row)

    monkeypatch.setattr(delivery, "_waits_for_another", other_goes_first)
    assert deliver(at(1), using=both(notifier)) == Delivered()
    assert notifier.sent == []


def test_a_channel_that_was_disabled_meanwhile_is_not_told():
    channel = webhook("https://example.com/")
    fire("hook")
    update_channel(str(channel.pk), {"is_enabled": False}, actor=ACTOR)
    notifier = Failing()
    assert deliver(at(1), using=both(notifier)) == Delivered(given_up=1)
    assert notifier.sent == []
    assert Notification.objects.get().last_error == "the channel is disabled"


def test_mail(settings: Any):
    create_channel("email", {"name": "mail", "addresses": ["a@example.com", "b@example.com"]}, actor=ACTOR)
    fire("mail")
    evaluate(lagging(3), at(60))
    assert deliver(at(61)) == Delivered(delivered=2)
    firing, resolved = mail.outbox
    assert firing.to == ["a@example.com", "b@example.com"]
    assert firing.subject == "[FIRING] critical: lag: orders/billing"
    assert "Value:     101" in firing.body
    assert resolved.subject == "[RESOLVED] critical: lag: orders/billing"
    assert "Resolved:  2026-01-31 12:01:00 UTC (cleared)" in resolved.body


def test_a_target_with_a_line_end_writes_no_mail_header():
    body = {"event": "firing", "alert": {**documented_body()["alert"], "target": "orders\r\nBcc: x@example.com"}}
    channel = AlertChannel(kind="email", addresses=["a@example.com"])
    EmailNotifier().send(channel, "1", [body])
    assert mail.outbox[0].subject == "[FIRING] critical: Slow billing: orders Bcc: x@example.com"
    assert mail.outbox[0].to == ["a@example.com"]


def test_a_mail_server_that_is_away_is_tried_again(settings: Any, unused_port: int):
    settings.EMAIL_BACKEND = "console.alerts.mail.DeadlineBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", unused_port
    create_channel("email", {"name": "mail", "addresses": ["a@example.com"]}, actor=ACTOR)
    fire("mail")
    assert deliver(at(1)) == Delivered(failed=1)
    assert "ConnectionRefusedError" in Notification.objects.get().last_error


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# --- where nothing may be sent ----------------------------------------------------------------------------------------


def refused(channel: AlertChannel, notifier: WebhookNotifier | None = None) -> NotDelivered:
    with pytest.raises(NotDelivered) as caught:
        (notifier or WebhookNotifier()).send(channel, "1", [documented_body()])
    return caught.value


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "127.1", "2130706433", "0.0.0.0", "[::ffff:127.0.0.1]"])
def test_this_machine_is_not_asked(receiver: Receiver, settings: Any, host: str):
    settings.WEBHOOK_NETWORKS = []
    error = refused(webhook(f"http://{host}:{receiver.port}/"))
    assert error.code == "alert_channel.address_forbidden"
    assert receiver.requests == []


@pytest.mark.parametrize("host", ["169.254.169.254", "10.0.0.1", "192.168.0.1", "[fd00:ec2::254]", "[fe80::1]"])
def test_networks_that_are_not_public_are_not_asked(host: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections.socket, "create_connection", _no_connection)
    assert refused(webhook(f"http://{host}/latest/meta-data/")).code == "alert_channel.address_forbidden"


def _no_connection(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("a connection was made")


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.1"], ["169.254.169.254"], ["10.0.0.1"], ["::1"], ["93.184.216.34", "127.0.0.1"], ["::ffff:10.0.0.1"]],
)
def test_names_of_such_addresses_are_not_asked(addresses: list[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections.socket, "create_connection", _no_connection)
    notifier = WebhookNotifier(resolver=lambda host, port: addresses)
    assert refused(webhook("https://hooks.example.com/"), notifier).code == "alert_channel.address_forbidden"


def test_the_connection_goes_to_the_address_that_was_checked(receiver: Receiver):
    asked: list[str] = []

    def resolver(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    channel = webhook(f"http://hooks.example.com:{receiver.port}/a")
    WebhookNotifier(resolver=resolver).send(channel, "1", [documented_body()])
    assert asked == ["hooks.example.com"], "resolved once: a second answer could be another"
    assert receiver.requests[0][1]["Host"] == f"hooks.example.com:{receiver.port}"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(receiver: Receiver, status: int):
    receiver.status = status
    receiver.headers = {"Location": f"http://127.0.0.1:{receiver.port}/inside"}
    assert "redirects are not followed" in str(refused(webhook(receiver.url)))
    assert [path for path, _, _ in receiver.requests] == ["/hook?key=hidden"]


def test_the_next_address_is_tried_when_the_first_takes_no_connection(receiver: Receiver):
    channel = webhook(f"http://hooks.example.com:{receiver.port}/a")
    notifier = WebhookNotifier(resolver=lambda host, port: ["127.0.0.2", "127.0.0.1"])
    assert notifier.send(channel, "1", [documented_body()]).endswith("answered 200")


def test_an_answer_that_never_ends_is_cut_off(receiver: Receiver):
    receiver.raw = b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * (ANSWER_BYTES_MAX * 4)
    assert "not valid HTTP" in str(refused(webhook(receiver.url)))


def test_an_answer_that_does_not_come_is_not_waited_for(receiver: Receiver):
    receiver.raw = b"HTTP/1.1 200 OK\r\n"
    error = refused(webhook(receiver.url), WebhookNotifier(timeout_seconds=0.3))
    assert "timed out" in str(error) or "not done in" in str(error)


@pytest.mark.parametrize("interim", [b"100 Continue", b"102 Processing", b"103 Early Hints"])
def test_an_interim_answer_is_not_the_answer(receiver: Receiver, interim: bytes):
    before = b"HTTP/1.1 " + interim + b"\r\nLink: </style.css>\r\n\r\n"
    receiver.raw = before * 2 + b"HTTP/1.1 204 No Content\r\n\r\n"
    channel = webhook(receiver.url)
    assert WebhookNotifier().send(channel, "1", [documented_body()]).endswith("answered 204")
    receiver.raw = before + b"HTTP/1.1 500 Internal Server Error\r\n\r\n"
    assert str(refused(channel)).endswith("answered 500")


def test_an_answer_that_comes_byte_by_byte_has_one_deadline(receiver: Receiver):
    receiver.raw = b"HTTP/1.1 200 OK\r\n"

    class Slow(ManualClock):
        def monotonic(self) -> float:
            self.advance(0.4)
            return super().monotonic()

    assert "timed out after 1 s" in str(
        refused(webhook(receiver.url), WebhookNotifier(clock=Slow(), timeout_seconds=1))
    )


def test_an_answer_whose_head_is_cut_off_is_no_success(receiver: Receiver):
    receiver.raw = b"HTTP/1.1 200 OK\r\nX-Half: "
    receiver.released.set()
    assert "not valid HTTP" in str(refused(webhook(receiver.url)))


def test_what_is_no_http_is_no_success(receiver: Receiver):
    receiver.raw = b"+OK redis\r\n\r\n"
    assert "not valid HTTP" in str(refused(webhook(receiver.url)))


def test_a_name_that_is_not_resolved_in_time_is_not_waited_for():
    stuck = threading.Event()

    def resolver(host: str, port: int) -> list[str]:
        stuck.wait(20)
        return ["93.184.216.34"]

    channel = webhook("https://hooks.example.com/")
    try:
        for _ in range(host_addresses.RESOLVERS_MAX):
            assert "DNS lookup timed out" in str(refused(channel, WebhookNotifier(resolver, timeout_seconds=0.02)))
        assert "already pending" in str(refused(channel, WebhookNotifier(resolver, timeout_seconds=0.02)))
    finally:
        stuck.set()


def test_a_name_without_an_address_is_an_error():
    def resolver(host: str, port: int) -> list[str]:
        raise socket.gaierror(-2, "Name or service not known")

    assert "not known" in str(refused(webhook("https://hooks.example.com/"), WebhookNotifier(resolver)))


def test_a_certificate_of_nobody_is_refused(receiver: Receiver):
    error = refused(webhook(f"https://127.0.0.1:{receiver.port}/"))
    assert "SSL" in str(error) or "ssl" in str(error)
    assert receiver.requests == []


def _certificate(folder: Path, host: str) -> tuple[Path, Path]:
    """A certificate that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(made.public_bytes(encoding))
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(private)
    return folder / "cert.pem", folder / "key.pem"


def test_https_asks_for_the_host_of_the_url(settings: Any, tmp_path: Path):
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    cert, key = _certificate(tmp_path, "hooks.example.com")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    receiver = Receiver(context)
    try:
        notifier = WebhookNotifier(
            lambda host, port: ["127.0.0.1"], tls=lambda: ssl.create_default_context(cafile=str(cert))
        )
        right = webhook(f"https://hooks.example.com:{receiver.port}/a", "right")
        assert notifier.send(right, "1", [documented_body()]).endswith("answered 200")
        wrong = webhook(f"https://other.example.com:{receiver.port}/a", "wrong")
        assert "CERTIFICATE_VERIFY_FAILED" in str(refused(wrong, notifier))
        assert len(receiver.requests) == 1
    finally:
        receiver.stop()


# --- secrets ----------------------------------------------------------------------------------------------------------


@pytest.mark.database
def test_secrets_are_encrypted_in_the_database():
    channel = webhook("https://example.com/hidden/path", secret=SECRET, headers={"X-Key": "hidden value"})
    text = json.dumps(AlertChannel.objects.values().get(), default=str)
    assert SECRET not in text
    assert "hidden" not in text
    assert CHANNELS.unseal(channel.sealed)["secret"] == SECRET


def test_an_old_key_still_opens_and_a_lost_one_says_what_to_do(settings: Any):
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "one", []
    channel = webhook("https://example.com/", secret=SECRET)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "two", ["one"]
    assert CHANNELS.unseal(channel.sealed)["secret"] == SECRET
    settings.SECRET_KEY_FALLBACKS = []
    fire("hook")
    assert deliver(at(1)) == Delivered(failed=1)
    assert "QMQ_SECRET_KEY_FALLBACKS" in Notification.objects.get().last_error
    update_channel(str(channel.pk), {"url": "https://example.com/"}, actor=ACTOR)
    assert deliver(at(11), using=both(Failing(fails=0))) == Delivered(delivered=1)


def test_a_new_origin_does_not_get_the_old_secret():
    channel = webhook("https://example.com/a", secret=SECRET, headers={"Authorization": "Bearer x"})
    change = update_channel(str(channel.pk), {"url": "https://example.com/b"}, actor=ACTOR)
    channel.refresh_from_db()
    assert change.notes == ()
    assert CHANNELS.unseal(channel.sealed)["secret"] == SECRET
    change = update_channel(str(channel.pk), {"url": "https://evil.example.org/"}, actor=ACTOR)
    channel.refresh_from_db()
    assert change.notes
    assert CHANNELS.unseal(channel.sealed) == {"url": "https://evil.example.org/"}
    assert (channel.has_secret, channel.header_names) == (False, [])


def test_a_channel_is_tried_and_what_happened_is_said(receiver: Receiver):
    channel = webhook(receiver.url)
    told = try_channel(str(channel.pk), now=at(0), actor=ACTOR)
    assert (told["is_told"], told["detail"]) == (True, f"http://127.0.0.1:{receiver.port} answered 200")
    assert receiver.bodies()[0]["event"] == "test"
    told = try_channel(str(channel.pk), now=at(0), actor=ACTOR, dry_run=True)
    assert (told["is_told"], len(receiver.requests)) == (True, 1)


def test_an_allowed_network_that_is_none_is_told_at_start(settings: Any):
    settings.WEBHOOK_NETWORKS = ["10.0.0.1/8"]
    assert [found.id for found in run_checks() if found.id == "alerts.E001"] == ["alerts.E001"]
    settings.WEBHOOK_NETWORKS = ["10.0.0.0/8"]
    assert [found for found in run_checks() if found.id == "alerts.E001"] == []
