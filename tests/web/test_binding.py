"""The port is taken before anything else starts."""

import contextlib
import socket

import pytest

from evenbeat.config import Settings
from evenbeat.core.errors import InvalidSettings
from evenbeat.server import bind


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_any_free_port_can_be_asked_for(host: str) -> None:
    with contextlib.closing(bind(Settings(host=host, port=0))) as bound:
        assert bound.getsockname()[1] > 0


def test_a_busy_port_is_named_with_what_to_do() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InvalidSettings, match=f"cannot listen on 127.0.0.1:{port}") as caught:
            bind(Settings(port=port))
    assert "EVENBEAT_PORT" in str(caught.value)


def test_an_address_of_another_machine_is_the_fault_of_the_host() -> None:
    # From a network reserved for documentation: no machine has it.
    with pytest.raises(InvalidSettings, match="host: cannot listen on 192") as caught:
        bind(Settings(host="192.0.2.1", port=0))
    assert "EVENBEAT_HOST" in str(caught.value)


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a..b", "x" * 300, "256.1.1.1"])
def test_a_host_that_is_none_is_named(host: str) -> None:
    with pytest.raises(InvalidSettings, match="no such address") as caught:
        bind(Settings(host=host, port=0))
    assert host in str(caught.value)
