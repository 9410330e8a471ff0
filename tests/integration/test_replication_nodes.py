"""The hosts of a replica set's members (nodes): the network distances between them, and the lab without root."""

from __future__ import annotations

import pytest

from costof.errors import CostofError, ErrorText
from costof.lab.lab import Lab, is_root
from costof.lab.round_trips import tcp_round_trip_ms
from costof.services.replication.lab import Distances, Group, Nodes
from tests.support.programs import HANGS_SECONDS, SHORTER_MS, eventually

pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(not is_root(), reason="separate hosts and CPU shares need root"),
]
#: The tolerance for too short round trips: twice a link's tolerance, since nodes are two links apart.
BY_ROUTER_MS = 2 * SHORTER_MS


def test_distance_between_replica_set_members_changes_without_closing_connections() -> None:
    near, far = Distances(0.1, 0), Distances(5, 20)
    group = Group(["a", "b", "c"], "c", [near, far])
    with Lab() as lab, Nodes(lab, 1, [group]) as nodes:
        measured = {link.name: link.median_ms for link in nodes.links() if link.method == "TCP_INFO"}
        # A busy machine delays some packets, but never speeds them up.
        medians = [measured[f"nodes at {at}"] for at in ("0.1 ms", "5 ms", "5 ms, far member 20 ms further")]
        assert all(median >= requested - BY_ROUTER_MS for median, requested in zip(medians, (0, 5, 25), strict=True))
        nodes.move(group, near)
        eventually("b near a", lambda: quickest_ms(nodes, "b") < 5 - BY_ROUTER_MS)
        nodes.move(group, far)
        assert quickest_ms(nodes, "b") >= 5 - BY_ROUTER_MS
        assert quickest_ms(nodes, "c") >= 25 - BY_ROUTER_MS
        eventually("b nearer a than c is", lambda: quickest_ms(nodes, "b") < 25 - BY_ROUTER_MS)
        eventually("c no further from a than requested", lambda: quickest_ms(nodes, "c") < 45)
        nodes.move(group, near)
        with nodes.hosts["a"].socket() as listener, nodes.hosts["b"].socket() as client:
            listener.bind((nodes.addresses["a"], 0))
            listener.listen()
            client.settimeout(HANGS_SECONDS)
            client.connect(listener.getsockname())
            server, peer = listener.accept()
            assert peer[0] == nodes.addresses["b"]
            nodes.move(group, far)
            with server:
                client.sendall(b"still here")
                assert server.recv(10) == b"still here"


def quickest_ms(nodes: Nodes, node: str) -> float:
    """Return the shortest round trip, in ms, of twenty TCP handshakes from `node` to the node named 'a'."""
    found = []
    with nodes.hosts["a"].socket() as listener:
        listener.bind((nodes.addresses["a"], 0))
        listener.listen(20)
        for _ in range(20):
            with nodes.hosts[node].socket() as client:
                client.settimeout(HANGS_SECONDS)
                client.connect(listener.getsockname())
                found.append(tcp_round_trip_ms(client))
    return min(found)


@pytest.mark.usefixtures("no_hosts")
def test_lab_without_root_puts_nodes_on_loopback_and_rejects_a_distance() -> None:
    with Lab() as lab:
        with Nodes(lab, 1, [Group(["a", "b", "c"], "c", [Distances(0.1, 0)])]) as near:
            assert len(set(near.addresses.values())) == 3
            assert all(address.startswith("127.") for address in near.addresses.values())
            assert not near.shares
        with (
            pytest.raises(CostofError, match="a round trip of 5 ms between nodes needs root") as refused,
            Nodes(lab, 1, [Group(["a", "b", "c"], "c", [Distances(5, 0)])]),
        ):
            pass
        assert refused.value.message is ErrorText.NEEDS_ROOT
