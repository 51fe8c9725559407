"""Addresses of clients: what is counted as one of them."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

Address = IPv4Address | IPv6Address


def parse(address: str) -> Address:
    """An address as it is meant: a server that listens on `::` sees IPv4 as `::ffff:192.0.2.1`.

    Raises:
        ValueError: for what is no address.
    """
    found = ip_address(address)
    return getattr(found, "ipv4_mapped", None) or found


def network_of(address: str) -> str:
    """The address, or the /64 that one household or machine has to itself in IPv6."""
    try:
        found = parse(address)
    except ValueError:
        return address
    return str(ip_network((found, 64), strict=False)) if isinstance(found, IPv6Address) else str(found)
