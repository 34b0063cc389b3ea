"""Which addresses outbound requests may go to: by default, those of the public internet.

The resolved address decides, never the name: there are too many ways to write 127.0.0.1. Python's
`is_global` is not enough: it lets NAT64, 6to4 and multicast through.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from evenbeat.core.errors import InvalidSettings

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

CLOSED = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
        *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        # A public address: the metadata service of Azure.
        "168.63.129.16/32",
    )
)
# Every address outside of it is local, reserved or multicast.
OPEN_IPV6 = ipaddress.IPv6Network("2000::/3")
CLOSED_IPV6 = tuple(
    ipaddress.IPv6Network(network)
    for network in ("2001::/23", "2001:db8::/32", "3fff::/20", "2620:4f:8000::/48")
)
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
SIXTOFOUR = ipaddress.IPv6Network("2002::/16")


@dataclass(frozen=True, slots=True)
class Addresses:
    """The permitted addresses: all, or the public internet and what the settings allow."""

    allows_private: bool = False
    networks: tuple[Network, ...] = ()
    hosts: frozenset[str] = frozenset()

    @classmethod
    def of_settings(cls, allowed: Iterable[str], *, allows_private: bool) -> "Addresses":
        """`allowed` holds networks, addresses and host names."""
        networks: list[Network] = []
        hosts: set[str] = set()
        for each in allowed:
            try:
                networks.append(ipaddress.ip_network(each))
            except ValueError:
                if "/" in each:
                    raise InvalidSettings(
                        "allowed_networks",
                        f"{each!r} is not a network; write 10.1.0.0/16, or the name of a host",
                    ) from None
                hosts.add(each.lower().rstrip("."))
        return cls(allows_private, tuple(networks), frozenset(hosts))

    def permit(self, host: str, address: Address) -> bool:
        """Whether `host`, resolved to `address`, may be called there."""
        if self.allows_private or host.lower().rstrip(".") in self.hosts:
            return True
        real = embedded_ipv4(address)
        if any(each in network for network in self.networks for each in (address, real)):
            return True
        return is_public(real)


def is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in CLOSED)
    return address in OPEN_IPV6 and not any(address in network for network in CLOSED_IPV6)


def embedded_ipv4(address: Address) -> Address:
    """The IPv4 address inside an IPv6 address (mapped, NAT64, 6to4); else the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address in SIXTOFOUR:
        return ipaddress.IPv4Address(int(address) >> 80 & 0xFFFFFFFF)
    return address
