"""Where a chain of programs stands: a host for the clients, one for each program in the middle, and one for the last.

```
client ──┬── one in the middle ──┬── last
         ├── another one ────────┤
         └───────────────────────┘
```

Every pair that talks is joined by a link of its own; the last host has one address for all. Without root the hosts are
loopback addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from costof.lab.host import Host
from costof.lab.lab import Lab
from costof.lab.network import Network
from costof.lab.resource import Opened


class ChainedSite(Opened):
    """A context manager within a lab's; leave it before the lab.

    `cores` is the share of each in the middle, `last_cores` that of the last, if any.
    """

    def __init__(
        self,
        lab: Lab,
        middle: Sequence[str],
        last: str,
        seed: int,
        cores: float | None = None,
        last_cores: float | None = None,
    ) -> None:
        self._lab = lab
        self._names = list(middle)
        self._last_name = last
        self._cores = cores
        self._last_cores = last_cores
        self._network = Network(lab, seed=seed)
        self.middle: dict[str, Host] = {}
        #: Where clients reach those in the middle.
        self.addresses: dict[str, str] = {}

    def _open(self, stack: ExitStack) -> None:
        """Make hosts and links. Raises `LAB_FAILED`."""
        stack.enter_context(self._network)
        self._make_hosts()

    def topology(self) -> str:
        """Such as 'a client, haproxy and an origin, each on a host (network namespace) of its own'."""
        told = f"a client, {' and '.join(self._names)} and {self._last_name}"
        if self.client.namespace is None:
            return f"{told}, on loopback"
        return f"{told}, each on a host (network namespace) of its own, joined by veth"

    def _make_hosts(self) -> None:
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
