"""Where a lab of balancers stands: a host for the clients, one for each balancer, and one for the origin.

```
client ──┬── haproxy ──┬── origin
         ├── nginx ────┤
         └─────────────┘
```

Every pair that talks is joined by a link of its own. Without root the hosts are loopback addresses, and a balancer has
no CPU share.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from costof.lab.host import Host
from costof.lab.lab import Lab, is_root
from costof.lab.network import Network
from costof.lab.opened import Opened

# A new connection for each request leaves its port waiting for a minute (TIME_WAIT); an operator who has thousands of
# them a second says so. Where /proc/sys may not be written, the kernel's own 28,000 ports must do.
TUNE = """
cd /proc/sys/net/ipv4
[ ! -w tcp_tw_reuse ] || echo 1 >tcp_tw_reuse
[ ! -w ip_local_port_range ] || echo "10240 65535" >ip_local_port_range
"""


class BalancedSite(Opened):
    """A context manager within a lab's; leave it before the lab. `cores` is the share of each balancer at first."""

    def __init__(self, lab: Lab, balancers: Sequence[str], cores: float, seed: int) -> None:
        self._lab = lab
        self._names = list(balancers)
        self._cores = cores
        self._network = Network(lab, seed=seed)
        #: Whether balancers have the CPU share that arms ask for.
        self.shares = is_root()
        self.balancers: dict[str, Host] = {}
        self.addresses: dict[str, str] = {}

    def _open(self, stack: ExitStack) -> None:
        """Make hosts and links. Raises `LAB_FAILED`."""
        stack.enter_context(self._network)
        self._make_hosts()

    def resize(self, balancer: str, cores: float) -> None:
        """Give a balancer as many cores, where it has a share. Raises `LAB_FAILED`."""
        share = self.balancers[balancer].cpu_share
        if share is not None:
            share.resize(cores)

    def held_back_seconds(self) -> float:
        """Time in which balancers wanted to run and had used their share up."""
        shares = [host.cpu_share for host in self.balancers.values()]
        return sum(share.held_back_seconds() for share in shares if share is not None)

    def topology(self) -> str:
        """Such as 'a client, haproxy and an origin, each on a host (network namespace) of its own'."""
        told = " and ".join(self._names)
        if self.client.namespace is None:
            return f"a client, {told} and an origin, on loopback"
        return f"a client, {told} and an origin, each on a host (network namespace) of its own, joined by veth"

    def _make_hosts(self) -> None:
        network = self._network
        self.client, self.origin = network.host("client"), network.host("origin")
        for name in self._names:
            self.balancers[name] = network.host(name, cpu_share=self._cores if self.shares else None)
        straight = network.link(self.client, self.origin, "client-origin")
        links = {self.client: straight}
        for name, host in self.balancers.items():
            self.addresses[name] = network.link(self.client, host, f"client-{name}").address_of(host)
            links[host] = network.link(host, self.origin, f"{name}-origin")
        if self.origin.namespace is None:
            self.origin_address = straight.address_of(self.origin)
            return
        self.origin_address = network.served_address(self.origin)
        for host, link in links.items():
            network.route(host, self.origin_address, link)
            self._lab.run(f"ports of {host.name}", [*host.prefix, "sh", "-ec", TUNE])
