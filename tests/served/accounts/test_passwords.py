"""Passwords that are long enough and easy to guess all the same."""

import secrets

import pytest
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

from console.accounts.models import User
from console.accounts.passwords import unpredictable
from console.accounts.roles import Role
from console.accounts.services import new_password
from tests.support.console.password import PASSWORD
from tests.support.console.people import Page, browser, person

ADA = User(username="ada.l", first_name="Augusta", last_name="Lovelace", email="countess@example.org")


@pytest.mark.parametrize(
    ("password", "message"),
    [
        ("aaaaaaaaaaaa", "only 1 different characters. Use at least 6"),
        ("abababababab", "only 2 different characters"),
        ("121212343434", "only 4 different characters"),
        ("123456789012", "a sequence, a keyboard row or a repetition"),
        ("0987654321098", "a sequence, a keyboard row or a repetition"),
        ("abcdefghijkl", "a sequence, a keyboard row or a repetition"),
        ("ABCdefGHIjkl", "a sequence, a keyboard row or a repetition"),
        ("abcdef123456", "a sequence, a keyboard row or a repetition"),
        ("a1b2c3d4e5f6", "a sequence, a keyboard row or a repetition"),
        ("qwertyuiop[]", "a sequence, a keyboard row or a repetition"),
        ("asdfghjklzxcvbnm", "a sequence, a keyboard row or a repetition"),
        ("1qaz2wsx3edc4rfv", "a sequence, a keyboard row or a repetition"),
        ("qwertzuiopasdf", "a sequence, a keyboard row or a repetition"),
        ("kangarookangaroo", "a sequence, a keyboard row or a repetition"),
        ("ada.l-ada.l-1", "too similar to your name"),
        ("Lovelace1234", "too similar to your name"),
        ("augusta-12345", "too similar to your name"),
        ("Countess-2024", "too similar to your name"),
    ],
)
def test_a_predictable_password_is_rejected_with_the_reason(password: str, message: str) -> None:
    with pytest.raises(ValidationError) as refused:
        validate_password(password, ADA)
    assert message in " ".join(refused.value.messages)


@pytest.mark.parametrize(
    "password",
    [PASSWORD, "correct horse battery", "Tr0ub4dor&3xyz", "一二三四五六七八九十甲乙", "lovelace-eats-grapes"],
)
def test_another_one_is_taken(password: str) -> None:
    validate_password(password, ADA)
    validate_password(password)


def test_what_the_console_makes_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(200):
        validate_password(new_password(ADA), ADA)
    made = iter(["Countess-2024", "ada.l-ada.l-1", PASSWORD])
    monkeypatch.setattr(secrets, "token_urlsafe", lambda size: next(made))
    assert new_password(ADA) == PASSWORD
    monkeypatch.setattr(secrets, "token_urlsafe", lambda size: "Countess-2024")
    assert new_password(ADA) == "Countess-2024", "validators that take nothing don't hang the console"


def test_a_long_text_is_looked_at_once() -> None:
    text = secrets.token_urlsafe(150)
    assert 0 < unpredictable(text) <= len(text)
    assert unpredictable("") == 0


@pytest.mark.django_db
def test_where_passwords_are_chosen() -> None:
    admin = browser(person("root", Role.ADMIN))
    person("ada")
    page = Page()
    page.sign_in()
    for password in ("aaaaaaaaaaaa", "123456789012"):
        body = {"username": "bob", "password": password}
        answer = admin.post("/api/v1/users/?dry_run=true", body)
        assert (answer.status_code, answer.json()["code"]) == (400, "user.password_weak")
        assert "This password" in answer.json()["fields"]["password"]
        body = {"current_password": PASSWORD, "new_password": password}
        answer = page.ask("POST", "account/password/change", body)
        assert answer.status_code == 400
        assert "This password" in answer.json()["errors"][0]["message"]
