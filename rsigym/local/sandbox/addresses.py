"""Hosts as clients spell them, and which addresses are somebody's own and not the internet's."""

import re
import socket
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_network,
)

__all__ = ["Address", "Network", "canonical", "not_public", "read_address", "read_name"]

type Address = IPv4Address | IPv6Address
type Network = IPv4Network | IPv6Network

_KINDS = {
    "an unspecified address": ("0.0.0.0/8", "::/128"),
    "a loopback address": ("127.0.0.0/8", "::1/128"),
    "a metadata address": (
        "169.254.169.254/32",
        "169.254.170.2/32",
        "168.63.129.16/32",
        "100.100.100.200/32",
        "192.0.0.192/32",
        "fd00:ec2::/32",
    ),
    "a link-local address": ("169.254.0.0/16", "fe80::/10"),
    "in a private range": (
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "fc00::/7",
        "fec0::/10",
    ),
    "in the range that carriers share": ("100.64.0.0/10",),
    "a multicast address": ("224.0.0.0/4", "ff00::/8"),
    "an address inside another": ("192.88.99.0/24", "2001::/32", "2002::/16", "64:ff9b:1::/48"),
    "a reserved address": (
        "192.0.0.0/24",
        "192.0.2.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "240.0.0.0/4",
        "2001::/23",
        "2001:db8::/32",
        "3fff::/20",
    ),
}
"""IANA's special-purpose registries (RFC 6890 and its updates), and the addresses at which clouds
give a machine its own credentials. The first that holds an address names it."""

_NOT_PUBLIC = [(kind, ip_network(text)) for kind, texts in _KINDS.items() for text in texts]
_UNICAST = IPv6Network("2000::/3")  # all that IANA has given out of IPv6
_NAT64 = IPv6Network("64:ff9b::/96")
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")


def canonical(address: Address) -> Address:
    """The address that is really meant: an IPv4 address written as IPv6 is that IPv4 address."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def not_public(address: Address) -> str | None:
    """What `address` is if it is not one of the internet's, such as "a loopback address".

    An address of this machine is not either: from here it is behind no firewall.
    """
    address = canonical(address)
    if isinstance(address, IPv6Address) and address in _NAT64:
        return not_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    for kind, network in _NOT_PUBLIC:
        if address in network:
            return kind
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return "a reserved address"
    return "an address of this machine" if _is_own(address) else None


def read_address(host: str) -> Address | None:
    """The address that a system's own functions would make of `host`, or None for a name.

    Besides the usual forms these are `2130706433`, `0x7f.1`, `0177.0.0.1` and `127.1`.

    Raises:
        ValueError: It can be neither, such as `[::1%eth0]` or `1.2.3.4.5`.
    """
    if host.startswith("[") and host.endswith("]"):
        address = IPv6Address(host[1:-1])
        if address.scope_id is not None:
            raise ValueError("an address with a zone")
        return canonical(address)
    host = host.removesuffix(".")
    last = host.rpartition(".")[2]
    # As browsers have it: what ends in a number is an address or nothing.
    if not re.fullmatch(r"[0-9]+|0[xX][0-9a-fA-F]*", last):
        return None
    try:
        return IPv4Address(socket.inet_aton(host))
    except OSError as error:
        raise ValueError("not an address") from error


def read_name(host: str) -> str:
    """A name in lower case without the root's dot.

    Raises:
        ValueError: It is not one; names in other scripts have to come as `xn--`.
    """
    name = host.lower().removesuffix(".")
    if len(name) > 253 or not _NAME.fullmatch(name):
        raise ValueError("not a host name")
    return name


def _is_own(address: Address) -> bool:
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True
