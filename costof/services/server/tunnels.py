"""The standing SSH tunnels of a run: one for each cipher and distance that its arms ask for, all through one `sshd`."""

from __future__ import annotations

from functools import partial

from costof.errors import CostofError
from costof.lab.certificates import Authority
from costof.messages.plan import ServiceSettings
from costof.programs.openssh import CLIENT_ROLE, SERVER_ROLE, SshServer, Tunnel
from costof.programs.server import LabServer
from costof.services.server.entrances import Entrances, Site
from costof.study.arms import PlannedArm

FIRST_PORT = 3307

#: A cipher, by OpenSSH's name, and a distance.
Key = tuple[str, str]
NO_TUNNEL: Key = ("", "")


def cipher_of(arm: PlannedArm) -> str:
    """Return the cipher of the tunnel that an arm's client goes through; '' for an arm without one."""
    return str(arm.settings.lab.get("tunnel", ""))


class Tunnels(Entrances):
    # Tunnels that stand do without the sshd that let them in.
    roles = frozenset({CLIENT_ROLE, SERVER_ROLE})

    def __init__(self, site: Site) -> None:
        self._lab = site.lab
        self._star = site.star
        self._asked = {arm.name: (cipher, site.distances[arm.name]) for arm in site.arms if (cipher := cipher_of(arm))}
        self._ports = {key: FIRST_PORT + number for number, key in enumerate(dict.fromkeys(self._asked.values()))}
        self._standing: dict[Key, Tunnel] = {}
        self._failed: dict[Key, str] = {}
        self._sshd: SshServer | None = None

    def has(self, arm: PlannedArm) -> bool:
        return arm.name in self._asked

    def start(self, server: LabServer, authority: Authority) -> None:
        if not self._asked:
            return
        address, _, port = server.client_settings().addresses[0].rpartition(":")
        self._sshd = SshServer(self._lab, address, host=self._star.server)
        self._sshd.start()
        begun = {}
        for cipher, distance in self._ports:
            name = f"ssh-{cipher.partition('@')[0]}-{distance}"
            entrance, host = self._listens((cipher, distance)), self._star.client(distance)
            begun[cipher, distance] = self._sshd.begin_tunnel(name, cipher, entrance, (address, int(port)), host=host)
        for key, tunnel in begun.items():
            carries = partial(server.answers, tunnel.address, tunnel.port, self._star.client(key[1]))
            try:
                self._sshd.stand(tunnel, carries)
            except CostofError as error:
                self._failed[key] = str(error)
                if tunnel.process.exit_status is None:
                    self._lab.stop(tunnel.name)
            else:
                self._standing[key] = tunnel

    def redirect(self, settings: ServiceSettings, arm: PlannedArm) -> ServiceSettings:
        return settings.entered_at("{}:{}".format(*self._listens(self._asked[arm.name])))

    def proofs(self, arm: PlannedArm) -> dict[str, str]:
        """Return what was negotiated in both directions, by the client's own log."""
        tunnel = self._of(arm)
        if tunnel is None:
            return {}
        ciphers, compressions = tunnel.negotiated()
        return {
            "tunnel cipher": ", ".join(sorted(ciphers)),
            "tunnel compression": ", ".join(sorted(compressions)),
        }

    def why_lost(self, arm: PlannedArm) -> str | None:
        tunnel = self._of(arm)
        return tunnel.why_dead() if tunnel else self._failed.get(self._asked.get(arm.name, NO_TUNNEL))

    def versions(self) -> dict[str, str]:
        return {"ssh": self._sshd.version} if self._sshd else {}

    def facts(self) -> dict[str, str]:
        return self._sshd.facts() if self._sshd else {}

    def _of(self, arm: PlannedArm) -> Tunnel | None:
        return self._standing.get(self._asked.get(arm.name, NO_TUNNEL))

    def _listens(self, key: Key) -> tuple[str, int]:
        return self._star.client_address(key[1]), self._ports[key]
