"""Messages and descriptors in packets."""

import array
import errno
import os
import resource
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsigym.local.sandbox.inside.messages import receive, send

type Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with one, two:
        yield one, two


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.text())))
def test_what_is_sent_is_received(fields: dict[str, str | int | list[str]]):
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with one, two:
        send(one, {"fields": fields})
        message, fds, _ = receive(two)
    assert message == {"fields": fields, "fds": 0}
    assert fds == []


@pytest.mark.parametrize("length", [1, 32_700, 33_000, 5_000_000])
def test_messages_of_any_length_arrive_with_their_descriptors(pair: Pair, length: int):
    with open(os.devnull) as file:
        send(pair[0], {"text": "ü" * length}, [file.fileno()] * 3)
    message, fds, _ = receive(pair[1])
    assert message is not None
    assert message["text"] == "ü" * length
    assert len(fds) == 3
    assert not any(os.get_inheritable(fd) for fd in fds)
    for fd in fds:
        assert os.path.samestat(os.fstat(fd), os.stat(os.devnull))
        os.close(fd)


def test_the_end_is_no_message(pair: Pair):
    pair[0].close()
    assert receive(pair[1])[0] is None


def test_lost_descriptors_are_said(pair: Pair):
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(os.devnull) as file:
        send(pair[0], {"id": 1}, [file.fileno()] * 10)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))  # those are always open
        try:
            message, fds, _ = receive(pair[1])
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert message is not None
    assert message["id"] == 1
    assert message["error"][0] == errno.EMFILE
    assert fds == []


def test_a_message_that_would_fill_this_machine_is_refused(pair: Pair):
    spill = os.memfd_create("huge")
    os.truncate(spill, 1 << 40)
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [spill]))
    pair[0].sendmsg([b"@"], [rights])
    os.close(spill)
    with pytest.raises(OSError, match="too long"):
        receive(pair[1])
