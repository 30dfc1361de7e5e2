"""Where webhooks may go."""

import re

import pytest

from console.alerts.addresses import URL_PATTERN, IllegalUrl, parse_url, refusal
from console.host_addresses import networks_of


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254",
        "224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.2.1", "::1", "::", "fe80::1", "fe80::1%1", "fc00::1",
        "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::7f00:1", "64:ff9b:1::808:808", "fec0::1", "::7f00:1", "::808:808", "::ffff:0:7f00:1", "5f00::1",
        "4000::1", "2002:7f00:1::", "2002:a00:1::1", "2001:db8::1", "nonsense", "",
    ],
)  # fmt: skip
def test_forbidden(address: str):
    assert refusal(address, ())


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700:4700::1111", "64:ff9b::808:808", "2002:808:808::1"])
def test_public(address: str):
    assert refusal(address, ()) == ""


def test_an_operator_can_allow_networks():
    allowed = networks_of(["10.20.0.0/16", "fd12::/32"])
    assert refusal("10.20.3.4", allowed) == ""
    assert refusal("::ffff:10.20.3.4", allowed) == ""
    assert refusal("fd12::1", allowed) == ""
    assert refusal("10.21.0.1", allowed)
    assert refusal("127.0.0.1", allowed)


OUT_OF_RANGE = ("http://example.com:0/", "http://example.com:99999/", "http://a/" + "x" * 1000)
"""Illegal URLs whose form is right."""


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/", "file:///etc/passwd", "gopher://example.com", "//example.com", "example.com", "http://",
        "http:///x", "http://user:pw@example.com/", "http://example.com/a b", "http://example.com/\r\nHost: x",
        "http://example.com/#x", "http://exämple.com/", "http://example.com\\@10.0.0.1/", "http://example.com/\\",
        "http://[::1", "http://[::1%25eth0]/", "http://example.com:1x/", "javascript:alert(1)", *OUT_OF_RANGE,
    ],
)  # fmt: skip
def test_illegal_urls(url: str):
    with pytest.raises(IllegalUrl):
        parse_url(url)
    assert bool(re.fullmatch(URL_PATTERN, url)) == (url in OUT_OF_RANGE)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com", "HTTPS://Example.COM:/", "http://localhost:8080/a/b.c?d=[e]&f={}|^`\"<>~", "http://10.0.0.1?q",
        "http://[fd12::1]:8080", "http://[::ffff:10.0.0.1]/", "https://a_b.example.com/%20/@;!$'()*+,=#", "http://a#",
    ],
)  # fmt: skip
def test_a_form_refuses_no_legal_url(url: str):
    parse_url(url)
    assert re.fullmatch(URL_PATTERN, url)


def test_urls_taken_apart():
    target = parse_url("https://hooks.example.com/a/b?c=d")
    assert (target.host, target.port, target.path) == ("hooks.example.com", 443, "/a/b?c=d")
    assert (target.origin, target.authority) == ("https://hooks.example.com", "hooks.example.com")
    target = parse_url("http://[fd12::1]:8080")
    assert (target.host, target.port, target.path) == ("fd12::1", 8080, "/")
    assert (target.origin, target.authority) == ("http://[fd12::1]:8080", "[fd12::1]:8080")
