"""Addresses of clients: what is counted as one of them."""

from ipaddress import IPv6Address, ip_address, ip_network


def network_of(address: str) -> str:
    """The address, or the /64 that one household or machine has to itself in IPv6."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    return str(ip_network((found, 64), strict=False)) if isinstance(found, IPv6Address) else address
