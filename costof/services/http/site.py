"""Where a lab of balancers stands: a chained site with the balancers in the middle and the origin at the end.

Without root a balancer has no CPU share.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from costof.lab.chain import ChainedSite
from costof.lab.host import Host
from costof.lab.lab import Lab, is_root

# A new connection for each request leaves its port waiting for a minute (TIME_WAIT); an operator who has thousands of
# them a second says so. Where /proc/sys may not be written, the kernel's own 28,000 ports must do.
TUNE = """
cd /proc/sys/net/ipv4
[ ! -w tcp_tw_reuse ] || echo 1 >tcp_tw_reuse
[ ! -w ip_local_port_range ] || echo "10240 65535" >ip_local_port_range
"""


class BalancedSite(ChainedSite):
    """`cores` is the share of each balancer at first."""

    def __init__(self, lab: Lab, balancers: Sequence[str], cores: float, seed: int) -> None:
        #: Whether balancers have the CPU share that arms ask for.
        self.shares = is_root()
        super().__init__(lab, balancers, "an origin", seed, cores if self.shares else None)

    def _open(self, stack: ExitStack) -> None:
        """Raises `LAB_FAILED`."""
        super()._open(stack)
        for host in (self.client, *self.balancers.values()):
            if host.namespace is not None:
                self._lab.run(f"ports of {host.name}", [*host.prefix, "sh", "-ec", TUNE])

    @property
    def balancers(self) -> dict[str, Host]:
        """Their hosts, by name."""
        return self.middle

    @property
    def origin(self) -> Host:
        """The origin's host."""
        return self.last

    @property
    def origin_address(self) -> str:
        """Where balancers and clients reach the origin."""
        return self.last_address

    def resize(self, balancer: str, cores: float) -> None:
        """Give a balancer as many cores, where it has a share. Raises `LAB_FAILED`."""
        share = self.balancers[balancer].cpu_share
        if share is not None:
            share.resize(cores)

    def throttled_seconds(self) -> float:
        """Time in which balancers wanted to run and had used their share up."""
        shares = [host.cpu_share for host in self.balancers.values()]
        return sum(share.throttled_seconds() for share in shares if share is not None)
