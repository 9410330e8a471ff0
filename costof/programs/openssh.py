"""OpenSSH tunnels of the run's own: an `sshd` and `ssh -N -L` clients, with keys, ports and configuration of the lab.

Nothing of the machine's SSH is read or changed: no file under /etc/ssh or ~/.ssh, no agent, no user's configuration.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from costof.errors import CostofError, ErrorText
from costof.lab.certificates import write_private
from costof.lab.host import Host
from costof.lab.lab import Lab, Process, last_line
from costof.lab.program import find_program, first_words, located
from costof.lab.unprivileged import Unprivileged

NAME = "sshd"
PORT = 2222
SERVER_ROLE = "sshd"
CLIENT_ROLE = "ssh"
HOST_ALIAS = "costof-lab"

# The published ones are the first two. A server of today refuses CBC unless it is named.
CIPHERS = ("aes256-cbc", "aes256-ctr", "chacha20-poly1305@openssh.com", "aes256-gcm@openssh.com")

# From OpenSSH 9.8 and 10.0 on a connection is another program's, which sshd starts from where it was built to lie.
OWN_PROGRAMS = {"SshdSessionPath": "sshd-session", "SshdAuthPath": "sshd-auth"}

# Tells what was negotiated and nothing else: the debug levels would log every connection through the tunnel.
LOG_NEGOTIATION = "kex.c:kex_choose_conf():*"
_NEGOTIATED = re.compile(r"kex: (?:server->client|client->server) cipher: (\S+) .*compression: (\S+)")


def find_ssh() -> Path:
    return find_program("ssh", "openssh-client")


def find_sshd() -> Path:
    return find_program("sshd", "openssh-server")


def ssh_version(binary: Path) -> str:
    return first_words([str(binary), "-V"], "ssh", "openssh-client")


NEEDED = {"ssh": located(find_ssh, ssh_version), "sshd": lambda: str(find_sshd())}


@dataclass(frozen=True)
class Tunnel:
    """A standing `ssh -N -L`. Clients connect to `address`:`port`."""

    name: str
    cipher: str
    address: str
    port: int
    process: Process

    def negotiated(self) -> tuple[set[str], set[str]]:
        """Return ciphers and compressions of both directions, by the client's own log: the evidence of its arm."""
        found = _NEGOTIATED.findall(self.process.log.read_text(errors="replace"))
        return {cipher for cipher, _ in found}, {compression for _, compression in found}

    def why_dead(self) -> str | None:
        if self.process.exit_status is None:
            return None
        return f"the tunnel {self.name} ended (status {self.process.exit_status}): {last_line(self.process.log)}"


class SshServer:
    """One `sshd` in a lab, on `address` of `host`. `start` it, then `begin_tunnel` and `stand`; the lab ends both."""

    def __init__(self, lab: Lab, address: str, *, host: Host | None = None) -> None:
        self.address = address
        self.version = ""
        self._lab = lab
        self._host = host
        # What lies above the lab's own folder may be closed to that user, or too long for a socket's name.
        self._folder = self._client_folder = Path()
        # An sshd that is root wants a user and a folder of the system's (privilege separation); one that is not has no
        # privileges to separate, and whoever forwards needs none.
        self._user = Unprivileged()

    def start(self) -> None:
        """Make the keys, start it and wait until it listens. Raises `PROGRAM_MISSING` or `LAB_FAILED`."""
        server = find_sshd()
        self._client = find_ssh()
        self.version = ssh_version(self._client)
        self._folder, self._client_folder = self._lab.new_folder(), self._lab.new_folder()
        self._user.own(self._folder)
        host_key, client_key = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
        write_private(self._client_folder / "key", _private(client_key))
        (self._client_folder / "known_hosts").write_text(f"{HOST_ALIAS} {_public(host_key)}\n")
        self._user.write(self._folder / "host_key", _private(host_key))
        self._user.write(self._folder / "authorized_keys", f"{_public(client_key)}\n".encode())
        self._user.write(self._folder / "sshd_config", self.configuration(server).encode())
        log = self._lab.spawn(NAME, SERVER_ROLE, self.command_line(server), forks=True, host=self._host).log
        # Asked of its log, since its host may be one that this process cannot connect to.
        self._lab.wait_until(f"starting {NAME}", lambda: "Server listening on" in log.read_text(errors="replace"))

    def command_line(self, binary: Path) -> list[str]:
        return [*self._user.prefix, str(binary), "-D", "-e", "-f", str(self._folder / "sshd_config")]

    def configuration(self, binary: Path) -> str:
        """Return the whole sshd_config: what is not here is OpenSSH's default, not the distribution's."""
        beside = binary.parents[1] / "lib" / "openssh"
        settings = {
            "ListenAddress": f"{self.address}:{PORT}",
            "HostKey": self._folder / "host_key",
            "AuthorizedKeysFile": self._folder / "authorized_keys",
            "AuthenticationMethods": "publickey",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "UsePAM": "no",
            "AllowUsers": self._user.name,
            # The folder lies in one that everybody may write to.
            "StrictModes": "no",
            "PidFile": "none",
            "UseDNS": "no",
            "Ciphers": ",".join(CIPHERS),
            "Compression": "no",
            "AllowTcpForwarding": "local",
            "AllowAgentForwarding": "no",
            "AllowStreamLocalForwarding": "no",
            "X11Forwarding": "no",
            "PermitTTY": "no",
            # The one kind of session that needs no shell: the user it runs as has none. It ends when nothing is asked.
            "Subsystem": "sftp internal-sftp",
            "ForceCommand": "internal-sftp",
            "LogLevel": "INFO",
            "LogVerbose": LOG_NEGOTIATION,
            # Of a package that was unpacked elsewhere. An older sshd has none, and knows no such setting.
            **{setting: beside / name for setting, name in OWN_PROGRAMS.items() if (beside / name).is_file()},
        }
        return "".join(f"{name} {value}\n" for name, value in settings.items())

    def begin_tunnel(
        self,
        name: str,
        cipher: str,
        listen: tuple[str, int],
        target: tuple[str, int],
        *,
        host: Host | None = None,
    ) -> Tunnel:
        """Begin a tunnel from `listen` on `host`, the client's, to `target` as the server's host sees it, so that
        several may exchange their keys at once."""
        argv = self.tunnel_command_line(self._client, cipher, listen, target, self._control(name))
        return Tunnel(name, cipher, *listen, self._lab.spawn(name, CLIENT_ROLE, argv, host=host))

    def stand(self, tunnel: Tunnel, carries: Callable[[], bool]) -> None:
        """Wait until `carries()` says that the service behind a tunnel answers through it.

        Raises `LAB_FAILED` with the client's own last words, or when it did not negotiate what was asked for.

        It opens one session beside the tunnel and closes it. sshd turns Nagle's algorithm off for a connection when a
        session is opened on it, and never for a bare `ssh -N`. A server that speaks first (MySQL) then waits, in every
        new connection through the tunnel, until the client has acknowledged that the channel is open: 40 ms, and one
        more round trip on a far link.
        """
        # Its control socket comes when the key exchange, the log-in and the forwarding are done.
        control = self._control(tunnel.name)
        opening = f"opening the tunnel {tunnel.name}"
        self._lab.wait_until(opening, lambda: control.exists() and carries(), only=tunnel.process)
        ciphers, compressions = tunnel.negotiated()
        if ciphers != {tunnel.cipher} or compressions != {"none"}:
            detail = f"the tunnel {tunnel.name} negotiated {ciphers} with compression {compressions}"
            raise CostofError(ErrorText.LAB_FAILED, detail=detail)
        beside = [str(self._client), "-F", "none", "-S", str(control), "-s", HOST_ALIAS, "sftp"]
        self._lab.run(f"{tunnel.name}-session", beside)

    def tunnel_command_line(
        self, binary: Path, cipher: str, listen: tuple[str, int], target: tuple[str, int], control: Path
    ) -> list[str]:
        """Holds no secret: the key is in a file. `control` is the socket for a session beside the tunnel."""
        options = {
            "Ciphers": cipher,
            "Compression": "no",
            "IdentityFile": self._client_folder / "key",
            "IdentitiesOnly": "yes",
            "IdentityAgent": "none",
            "PreferredAuthentications": "publickey",
            "BatchMode": "yes",
            "HostKeyAlias": HOST_ALIAS,
            "UserKnownHostsFile": self._client_folder / "known_hosts",
            "GlobalKnownHostsFile": "none",
            "StrictHostKeyChecking": "yes",
            "UpdateHostKeys": "no",
            "ControlMaster": "yes",
            "ControlPath": control,
            # With the process: it stays in the foreground and ends with the lab.
            "ControlPersist": "no",
            "ExitOnForwardFailure": "yes",
            # A server that is gone without a word is noticed within a minute.
            "ServerAliveInterval": "15",
            "ServerAliveCountMax": "3",
            "LogLevel": "INFO",
            "LogVerbose": LOG_NEGOTIATION,
        }
        argv = [str(binary), "-F", "none", "-N", "-T", "-L", f"{listen[0]}:{listen[1]}:{target[0]}:{target[1]}"]
        argv += [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return [*argv, "-p", str(PORT), "-l", self._user.name, self.address]

    def facts(self) -> dict[str, str]:
        return {"SSH tunnel": "ssh -N -L, compression off, standing before the first slice"}

    def _control(self, name: str) -> Path:
        return self._client_folder / name


def _private(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())


def _public(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
