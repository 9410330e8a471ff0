"""The lab's SSH tunnels, to a server that speaks first as MySQL does."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from costof.errors import CostofError
from costof.lab.lab import Lab, descendants_of, is_root
from costof.programs.mariadb.lab import greets
from costof.programs.openssh import CIPHERS, PORT, SshServer, Tunnel
from tests.support.programs import eventually
from tests.support.silent import silent_listener

pytestmark = pytest.mark.servers

PIDFD_GETFD = 438
GREETING = b"\x4a\0\0\0\x0a8.0.36\0"


@dataclass
class TunnelLab:
    lab: Lab
    server_port: int
    sshd: SshServer

    def begin(self, name: str, cipher: str, port: int) -> Tunnel:
        target = ("127.0.0.1", self.server_port)
        return self.sshd.start_tunnel(name, cipher, (self.lab.address(2), port), target)

    def open(self, name: str, cipher: str, port: int) -> Tunnel:
        tunnel = self.begin(name, cipher, port)
        self.sshd.wait_until_open(tunnel, lambda: greets(tunnel.address, port))
        return tunnel


@contextlib.contextmanager
def tunnel_lab() -> Iterator[TunnelLab]:
    with Lab() as lab, silent_listener(GREETING) as port:
        sshd = SshServer(lab, lab.address(1))
        sshd.start()
        yield TunnelLab(lab, port, sshd)


@pytest.fixture(scope="module")
def lab() -> Iterator[TunnelLab]:
    with tunnel_lab() as lab:
        yield lab


def test_sshd_disables_nagles_algorithm_on_the_connection_of_a_tunnel(lab: TunnelLab) -> None:
    bare, with_session = lab.begin("ssh-bare", CIPHERS[1], 4020), lab.open("ssh-session", CIPHERS[1], 4021)
    eventually("a tunnel without a session", lambda: greets(bare.address, bare.port))
    assert not all(delays_nothing(lab, bare))
    assert all(delays_nothing(lab, with_session))


def delays_nothing(lab: TunnelLab, tunnel: Tunnel) -> list[bool]:
    """Return whether TCP_NODELAY is set on the tunnel's TCP connection, for each sshd process that has it open."""
    ends = [end for end in connections_of(tunnel.process.pid) if end.remote_port == PORT]
    assert len(ends) == 1
    sessions = descendants_of(lab.lab.processes["sshd"].pid)
    found = [end for pid in sessions for end in connections_of(pid) if end.remote_port == ends[0].local_port]
    assert found
    return [end.no_delay for end in found]


@dataclass
class Connection:
    local_port: int
    remote_port: int
    no_delay: bool


def connections_of(pid: int) -> list[Connection]:
    """Return the TCP connections of another process, by copying its sockets (pidfd_getfd)."""
    libc, found = ctypes.CDLL(None, use_errno=True), []
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if not str(entry.readlink()).startswith("socket:"):
                continue
        descriptor = libc.syscall(PIDFD_GETFD, process, int(entry.name), 0)
        if descriptor < 0 and ctypes.get_errno() == errno.EBADF:
            continue  # The process has closed this descriptor since it was listed.
        if descriptor < 0:
            pytest.skip("this kernel or user may not look at another process' sockets")
        # Unix sockets and listening sockets have no peer with a port; they raise an error and are left out.
        with socket.socket(fileno=descriptor) as end, contextlib.suppress(OSError, IndexError):
            ports = end.getsockname()[1], end.getpeername()[1]
            found.append(Connection(*ports, bool(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))))
    os.close(process)
    return found


def test_stopped_tunnel_closes_its_port_and_does_not_count_as_dead(lab: TunnelLab) -> None:
    tunnel = lab.open("ssh-closed", CIPHERS[1], 4030)
    lab.lab.stop(tunnel.name)
    assert lab.lab.dead() == []
    assert not greets(tunnel.address, tunnel.port)


def test_reason_for_a_failed_tunnel_is_reported(lab: TunnelLab) -> None:
    with tunnel_lab() as other:
        with pytest.raises(CostofError, match=r"ssh-odd ended: .*rot13"):
            other.open("ssh-odd", "rot13", 4000)
        other.lab.processes.pop("ssh-odd")
        tunnel = other.open("ssh-there", CIPHERS[1], 4000)
        with pytest.raises(CostofError, match=r"ssh-late ended: .*forward"):
            other.open("ssh-late", CIPHERS[1], 4000)
        other.lab.processes.pop("ssh-late")
        # Point the other lab's client, which does not know the host key, to this lab's sshd.
        own, other.sshd.address = other.sshd.address, lab.sshd.address
        with pytest.raises(CostofError, match=r"ssh-stranger ended: .*verification failed"):
            other.open("ssh-stranger", CIPHERS[1], 4001)
        other.sshd.address = own
        for session in descendants_of(other.lab.processes["sshd"].pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(session, 9)
        eventually("the end of the tunnel", lambda: tunnel.why_dead() is not None)
        assert "Connection" in (tunnel.why_dead() or "")


@pytest.mark.skipif(not is_root(), reason="only root's lab has a server that runs as another user")
def test_tunnel_opens_even_if_only_root_may_enter_tmpdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with tunnel_lab() as lab:
        lab.open("ssh-tunnel", CIPHERS[1], 4000)
        own = lab.sshd._folder
    assert not own.exists()
