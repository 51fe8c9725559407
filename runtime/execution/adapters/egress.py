"""Where a call may go: public addresses, and hosts that the deployment allows by name."""

import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Sequence[str]]

# Beyond what the registries call private: addresses that carry another address inside, that lead back to
# this network, or that a cloud answers with its own secrets.
_REFUSED = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",
        "100.64.0.0/10",
        "168.63.129.16/32",
        "192.0.0.0/24",
        "192.88.99.0/24",
        "198.18.0.0/15",
        "224.0.0.0/3",
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "3fff::/20",
    )
)
# Everything public in IPv6 lies here; mapped, compatible, translated and local forms all lie outside.
_IPV6_PUBLIC = ipaddress.ip_network("2000::/3")
# An `EgressRefusedError` in words.
REFUSED: Final = "the address is not public and not in DIR_EGRESS_ALLOW"


class EgressRefusedError(Exception):
    """The host, or the address that it resolves to, may not be called."""


class UnresolvedError(Exception):
    """The name has no address now."""


def is_public(address: Address) -> bool:
    """Whether an address is one of the open internet."""
    if any(address in network for network in _REFUSED if network.version == address.version):
        return False
    if isinstance(address, ipaddress.IPv6Address) and address not in _IPV6_PUBLIC:
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a name, by the system's resolver. Raises `UnresolvedError`."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UnresolvedError from error
    return [str(sockaddr[0]) for *_, sockaddr in found]


@dataclass(frozen=True, kw_only=True)
class Egress:
    """The active rule: `allow` holds `host` (any port) and `host:port` words."""

    allow: frozenset[str]
    resolver: Resolve = resolve

    def addresses(self, *, host: str, port: int) -> tuple[str, ...]:
        """The vetted addresses of `host`, resolved once: the caller connects to these alone.

        One bad address among several refuses them all, since the answer then was meant to mislead.

        Raises:
            EgressRefusedError: when the host is not allowed and not wholly public.
            UnresolvedError: when there is no address.
        """
        found = tuple(dict.fromkeys(self.resolver(host, port)))
        if not found:
            raise UnresolvedError
        name = host.lower().rstrip(".").strip("[]")
        forms = {name, f"[{name}]"} if ":" in name else {name}
        is_allowed = any(form in self.allow or f"{form}:{port}" in self.allow for form in forms)
        if not is_allowed and not all(is_public(_address(text)) for text in found):
            raise EgressRefusedError
        return found


def rule(words: Sequence[str]) -> Egress:
    """The rule that the words of DIR_EGRESS_ALLOW state."""
    return Egress(allow=frozenset(word.lower() for word in words))


def _address(text: str) -> Address:
    try:
        return ipaddress.ip_address(text)
    except ValueError as error:
        raise EgressRefusedError from error
