"""OpenSSH tunnels of a lab: an `sshd` and `ssh -N -L` clients. Their keys and configuration are made for the run.

The machine's own SSH is neither read nor changed: no file under /etc/ssh or ~/.ssh, no agent, no user configuration.
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
from costof.lab.debian import Packages
from costof.lab.host import Host
from costof.lab.lab import Lab, Process
from costof.lab.program import find_program, first_words, located
from costof.lab.unprivileged import Unprivileged

NAME = "sshd"
PORT = 2222
SERVER_ROLE = "sshd"
CLIENT_ROLE = "ssh"
HOST_ALIAS = "costof-lab"

# The ciphers that tunnels may use. sshd refuses CBC unless its configuration names it.
CIPHERS = ("aes256-cbc", "aes256-ctr", "chacha20-poly1305@openssh.com", "aes256-gcm@openssh.com")

# sshd starts these programs for each connection (sshd-session since OpenSSH 9.8, sshd-auth since 10.0). By default,
# sshd looks for them in a folder that was set when sshd was built.
HELPER_PROGRAMS = {"SshdSessionPath": "sshd-session", "SshdAuthPath": "sshd-auth"}

# This LogVerbose value logs only the negotiated algorithms. A debug log level would log every forwarded connection.
LOG_NEGOTIATION = "kex.c:kex_choose_conf():*"
_NEGOTIATED = re.compile(r"kex: (?:server->client|client->server) cipher: (\S+) .*compression: (\S+)")


def find_ssh() -> Path:
    return find_program("ssh", "openssh-client")


def find_sshd() -> Path:
    return find_program("sshd", "openssh-server")


def ssh_version(binary: Path) -> str:
    return first_words([str(binary), "-V"], "ssh", "openssh-client")


NEEDED = {"ssh": located(find_ssh, ssh_version), "sshd": lambda: str(find_sshd())}
FETCHABLE = [
    Packages("ssh", ["openssh-client"], ["usr/bin/ssh"]),
    Packages("sshd", ["openssh-server"], ["usr/sbin/sshd"]),
]


@dataclass(frozen=True)
class Tunnel:
    """A running `ssh -N -L` client. Clients of the tunnel connect to `address`:`port`."""

    name: str
    cipher: str
    address: str
    port: int
    process: Process

    def negotiated(self) -> tuple[set[str], set[str]]:
        """Return the ciphers and the compressions negotiated for the two directions, read from the ssh client's log."""
        matches = _NEGOTIATED.findall(self.process.log.read_text(errors="replace"))
        return {cipher for cipher, _ in matches}, {compression for _, compression in matches}

    def why_dead(self) -> str | None:
        return self.process.why_dead(f"the tunnel {self.name}")


class SshServer:
    """One `sshd` in a lab, listening on `address` of `host`.

    Call `start`, then `start_tunnel` and `wait_until_open` for each tunnel. The lab stops the processes.
    """

    def __init__(self, lab: Lab, address: str, *, host: Host | None = None, name: str = NAME) -> None:
        self.address = address
        self.name = name
        self.version = ""
        self._lab = lab
        self._host = host
        # `start` creates these folders directly under /tmp: sshd's user may be unable to read the lab's folder, whose
        # path may also be too long for a Unix socket.
        self._folder = self._client_folder = Path()
        # sshd runs as an unprivileged user. Forwarding needs no privileges. As root, sshd would need a system user and
        # a folder for privilege separation.
        self._user = Unprivileged()

    def start(self) -> None:
        """Create the keys, start sshd and wait until it listens. Raises `PROGRAM_MISSING` or `LAB_FAILED`."""
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
        log = self._lab.spawn(self.name, SERVER_ROLE, self.command_line(server), forks=True, host=self._host).log
        # Read sshd's log instead of connecting, because this process may not be able to connect to sshd's host.
        self._lab.wait_until(f"starting {self.name}", lambda: "Server listening on" in log.read_text(errors="replace"))

    def command_line(self, binary: Path) -> list[str]:
        return [*self._user.prefix, str(binary), "-D", "-e", "-f", str(self._folder / "sshd_config")]

    def configuration(self, binary: Path) -> str:
        """Return the whole sshd_config. Settings that it leaves out have OpenSSH's defaults, not the distribution's."""
        helpers = binary.parents[1] / "lib" / "openssh"
        settings = {
            "ListenAddress": f"{self.address}:{PORT}",
            "HostKey": self._folder / "host_key",
            "AuthorizedKeysFile": self._folder / "authorized_keys",
            "AuthenticationMethods": "publickey",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "UsePAM": "no",
            "AllowUsers": self._user.name,
            # StrictModes would refuse keys under /tmp, to which everybody may write.
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
            # `wait_until_open` opens a session. Only an SFTP session works without a shell, which sshd's user does not
            # have.
            "Subsystem": "sftp internal-sftp",
            "ForceCommand": "internal-sftp",
            "LogLevel": "INFO",
            "LogVerbose": LOG_NEGOTIATION,
            # Tell sshd where its helper programs are, in case sshd's package is not unpacked in /. An older sshd has
            # neither these programs nor these settings.
            **{setting: helpers / name for setting, name in HELPER_PROGRAMS.items() if (helpers / name).is_file()},
        }
        return "".join(f"{name} {value}\n" for name, value in settings.items())

    def start_tunnel(
        self,
        name: str,
        cipher: str,
        listen: tuple[str, int],
        target: tuple[str, int],
        *,
        host: Host | None = None,
    ) -> Tunnel:
        """Start a tunnel from `listen` on the client's `host` to `target`, an address that sshd's host connects to.

        The method does not wait until the tunnel is open, so that several tunnels can exchange keys at the same time.
        """
        argv = self.tunnel_command_line(self._client, cipher, listen, target, self._control(name))
        return Tunnel(name, cipher, *listen, self._lab.spawn(name, CLIENT_ROLE, argv, host=host))

    def wait_until_open(self, tunnel: Tunnel, is_open: Callable[[], bool]) -> None:
        """Wait until `is_open()` returns True, that is, until the service answers through the tunnel.

        Raises `LAB_FAILED` with the ssh client's last log line, or if ssh negotiated another cipher than
        `tunnel.cipher`.

        The method also opens and closes one session over the tunnel's connection, because sshd disables Nagle's
        algorithm on a connection only when a session is opened. `ssh -N` alone opens no session. With Nagle's
        algorithm, the greeting of a server that speaks first (MySQL) would wait in sshd until the client has
        acknowledged the new channel. That would take 40 ms, and on a link with a delay one more round trip.
        """
        # ssh creates its control socket only after the key exchange, the log-in and the set-up of the forwarding.
        control = self._control(tunnel.name)
        opening = f"opening the tunnel {tunnel.name}"
        self._lab.wait_until(opening, lambda: control.exists() and is_open(), only=tunnel.process)
        ciphers, compressions = tunnel.negotiated()
        if ciphers != {tunnel.cipher} or compressions != {"none"}:
            detail = f"the tunnel {tunnel.name} negotiated {ciphers} with compression {compressions}"
            raise CostofError(ErrorText.LAB_FAILED, detail=detail)
        session = [str(self._client), "-F", "none", "-S", str(control), "-s", HOST_ALIAS, "sftp"]
        self._lab.run(f"{tunnel.name}-session", session)

    def tunnel_command_line(
        self, binary: Path, cipher: str, listen: tuple[str, int], target: tuple[str, int], control: Path
    ) -> list[str]:
        """Return ssh's command line. It holds no secret: the key is in a file. `control` is ssh's control socket."""
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
            # ssh stays in the foreground, so that the lab can stop it.
            "ControlPersist": "no",
            "ExitOnForwardFailure": "yes",
            # With these two settings ssh notices within a minute that a server no longer answers.
            "ServerAliveInterval": "15",
            "ServerAliveCountMax": "3",
            "LogLevel": "INFO",
            "LogVerbose": LOG_NEGOTIATION,
        }
        argv = [str(binary), "-F", "none", "-N", "-T", "-L", f"{listen[0]}:{listen[1]}:{target[0]}:{target[1]}"]
        argv += [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return [*argv, "-p", str(PORT), "-l", self._user.name, self.address]

    def facts(self) -> dict[str, str]:
        return {"SSH tunnel": "ssh -N -L, compression off, open before the first slice"}

    def _control(self, name: str) -> Path:
        return self._client_folder / name


def _private(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())


def _public(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
