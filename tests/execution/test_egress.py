"""Where a call may go: what leads anywhere but to the open internet is refused."""

from collections.abc import Sequence

import pytest

from runtime.execution.adapters import egress

REFUSED = [
    "127.0.0.1",
    "127.8.9.10",
    "0.0.0.0",  # noqa: S104  # refused, not bound
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "169.254.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.8",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "64:ff9b::7f00:1",
    "64:ff9b::808:808",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:808:808::",
    "3fff::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
]
PUBLIC = ["1.1.1.1", "8.8.8.8", "172.32.0.1", "192.167.1.1", "2606:4700::1111", "2a00:1450:4001::8"]


def rule(*answers: str, allow: Sequence[str] = ()) -> egress.Egress:
    """A rule whose resolver gives these addresses for every name."""
    return egress.Egress(allow=frozenset(allow), resolver=lambda host, port: answers)


@pytest.mark.parametrize("address", REFUSED)
def test_refuses_an_address_that_is_not_public(address: str) -> None:
    with pytest.raises(egress.EgressRefusedError):
        rule(address).addresses(host="target.example", port=443)


@pytest.mark.parametrize("address", PUBLIC)
def test_lets_a_public_address_through(address: str) -> None:
    assert rule(address).addresses(host="target.example", port=443) == (address,)


def test_one_bad_address_among_good_ones_refuses_them_all() -> None:
    with pytest.raises(egress.EgressRefusedError):
        rule("8.8.8.8", "127.0.0.1").addresses(host="target.example", port=443)


def test_refuses_what_is_no_address_at_all() -> None:
    with pytest.raises(egress.EgressRefusedError):
        rule("not an address").addresses(host="target.example", port=443)


def test_a_name_without_an_address_is_unresolved() -> None:
    with pytest.raises(egress.UnresolvedError):
        rule().addresses(host="target.example", port=443)
    with pytest.raises(egress.UnresolvedError):
        egress.resolve("a name with spaces.invalid", 443)
    with pytest.raises(egress.UnresolvedError):
        egress.resolve("a" * 300, 443)


@pytest.mark.parametrize(
    ("allow", "host", "port", "passes"),
    [
        ("127.0.0.1", "127.0.0.1", 9410, True),
        ("127.0.0.1", "127.0.0.1", 80, True),
        ("127.0.0.1:9410", "127.0.0.1", 9410, True),
        ("127.0.0.1:9410", "127.0.0.1", 6379, False),
        ("broker.internal", "BROKER.internal", 80, True),
        ("broker.internal", "broker.internal.", 80, True),
        ("broker.internal", "evil-broker.internal", 80, False),
        ("broker.internal", "broker.internal.evil.example", 80, False),
        ("[::1]:80", "::1", 80, True),
        ("[::1]:80", "::1", 81, False),
        ("::1", "::1", 80, True),
        ("", "127.0.0.1", 80, False),
    ],
)
def test_an_allowed_host_may_be_private(allow: str, host: str, port: int, passes: bool) -> None:
    allowed = rule("127.0.0.1", allow=[allow] if allow else [])
    if passes:
        assert allowed.addresses(host=host, port=port) == ("127.0.0.1",)
    else:
        with pytest.raises(egress.EgressRefusedError):
            allowed.addresses(host=host, port=port)


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost"])
def test_another_spelling_of_the_loopback_address_is_refused(host: str) -> None:
    with pytest.raises(egress.EgressRefusedError):
        egress.rule([]).addresses(host=host, port=80)


def test_the_words_of_the_setting_are_read_without_regard_to_case() -> None:
    assert egress.rule(["Broker.Internal:80"]).allow == {"broker.internal:80"}
