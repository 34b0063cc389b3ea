"""Which addresses may be called: decided on what a name resolves to, however it is written."""

import ipaddress
import socket

import pytest

from evenbeat.core.errors import InvalidSettings
from evenbeat.handlers.http.addresses import Addresses, embedded_ipv4, is_public

PUBLIC_ONLY = Addresses()

CLOSED = [
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.9.9.9"),
    *("169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1"),
    *("192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.7", "224.0.0.1"),
    *("239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16"),
    *("::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254"),
    *("64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1", "64:ff9b:1::1", "64:ff9b:1:ffff::8.8.8.8"),
    *("2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:c0a8:101::", "2001:0:4136:e378:8000:63bf::"),
    *("2001:db8::1", "3fff::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%lo", "fec0::1"),
    *("ff02::1", "100::1", "5f00::1", "4000::1", "::2", "2001:10::1", "2001:20::1"),
]
OPEN = [
    *("1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.1", "172.15.0.1"),
    *("172.32.0.1", "192.0.1.1", "198.17.0.1", "198.20.0.1", "223.255.255.255"),
    *("2606:4700:4700::1111", "2a00:1450:4001::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"),
    *("2002:808:808::1",),
]


@pytest.mark.parametrize("address", CLOSED)
def test_what_is_not_the_public_internet_is_closed(address: str) -> None:
    assert not PUBLIC_ONLY.permit("host", ipaddress.ip_address(address))
    assert Addresses(allows_private=True).permit("host", ipaddress.ip_address(address))


@pytest.mark.parametrize("address", OPEN)
def test_the_public_internet_is_open(address: str) -> None:
    assert PUBLIC_ONLY.permit("host", ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "written", ["2130706433", "0x7f.1", "0177.0.0.1", "127.1", "0x7f000001", "0", "localhost"]
)
def test_however_it_is_written_it_resolves_to_what_is_closed(written: str) -> None:
    found = socket.getaddrinfo(written, 80, type=socket.SOCK_STREAM)
    assert found
    for entry in found:
        assert not PUBLIC_ONLY.permit(written, ipaddress.ip_address(entry[4][0]))


def test_a_network_may_be_allowed_and_its_neighbour_stays_closed() -> None:
    addresses = Addresses.of_settings(["10.1.0.0/16", "192.168.7.7"], allows_private=False)
    assert addresses.permit("host", ipaddress.ip_address("10.1.2.3"))
    assert addresses.permit("host", ipaddress.ip_address("::ffff:10.1.2.3"))
    assert addresses.permit("host", ipaddress.ip_address("192.168.7.7"))
    assert not addresses.permit("host", ipaddress.ip_address("10.2.0.1"))
    assert not addresses.permit("host", ipaddress.ip_address("192.168.7.8"))


def test_a_host_may_be_allowed_by_its_name_and_no_other_at_its_address() -> None:
    addresses = Addresses.of_settings(["Intranet.Example"], allows_private=False)
    home = ipaddress.ip_address("10.0.0.1")
    assert addresses.permit("intranet.example", home)
    assert addresses.permit("intranet.example.", home)
    assert not addresses.permit("evil-intranet.example", home)
    assert not addresses.permit("intranet.example.evil.org", home)


@pytest.mark.parametrize("network", ["10.0.0.0/33", "10.0.0.1/8", "x/8"])
def test_a_network_that_is_none_is_refused(network: str) -> None:
    with pytest.raises(InvalidSettings, match="allowed_networks"):
        Addresses.of_settings([network], allows_private=False)


def test_an_address_without_another_inside_is_itself() -> None:
    for text in ("8.8.8.8", "2606:4700::1"):
        assert embedded_ipv4(ipaddress.ip_address(text)) == ipaddress.ip_address(text)
    assert is_public(embedded_ipv4(ipaddress.ip_address("2002:808:808::1")))
