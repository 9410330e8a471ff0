"""Programs one behind the other: a host for the clients, one for each program in the middle, and one for the last.

```
client ──┬── one in the middle ──┬── last
         ├── another one ────────┤
         └───────────────────────┘
```

Every pair that talks is joined by a link of its own; the last host has one address for all. Where none
can be made the hosts are loopback addresses.
"""

from __future__ import annotations

from collections.abc import Sequence

from costof.lab.host import Host
from costof.lab.lab import Lab
from costof.lab.topology import Topology


class Chain(Topology):
    """`cores` is the share of each in the middle, `last_cores` that of the last, if any; without root none has one."""

    def __init__(
        self, lab: Lab, middle: Sequence[str], last: str, seed: int, cores: float, last_cores: float | None = None
    ) -> None:
        super().__init__(lab, seed)
        self._names = list(middle)
        self._last_name = last
        self._cores = cores if self.shares else None
        self._last_cores = last_cores if self.shares else None
        self.middle: dict[str, Host] = {}
        #: Where clients reach those in the middle.
        self.addresses: dict[str, str] = {}

    def words(self) -> str:
        """Such as 'a client, haproxy and an origin, each on a host (network namespace) of its own'."""
        told = f"a client, {' and '.join(self._names)} and {self._last_name}"
        if self.client.namespace is None:
            return f"{told}, on loopback"
        return f"{told}, each on a host (network namespace) of its own, joined by veth"

    def _make(self) -> None:
        network = self._network
        self.client = network.host("client")
        self.last = network.host(self._last_name.split()[-1], cpu_share=self._last_cores)
        for name in self._names:
            self.middle[name] = network.host(name, cpu_share=self._cores)
        straight = network.link(self.client, self.last, f"client-{self.last.name}")
        links = {self.client: straight}
        for name, host in self.middle.items():
            self.addresses[name] = network.link(self.client, host, f"client-{name}").address_of(host)
            links[host] = network.link(host, self.last, f"{name}-{self.last.name}")
        if self.last.namespace is None:
            self.last_address = straight.address_of(self.last)
            return
        self.last_address = network.served_address(self.last)
        for host, link in links.items():
            network.route(host, self.last_address, link)
