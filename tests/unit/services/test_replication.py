"""Replication trees (which member replicates from which), and figures computed from the states of the members."""

from __future__ import annotations

import pytest
from bson import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from costof.services.replication.lab import member_roles
from costof.services.replication.shape import (
    MemberReading,
    SetReading,
    depths,
    expected_tree,
    hops_to_majority,
    replication_figures,
    tree_mismatch,
    tree_text,
)

SHAPES = st.sampled_from(["star", "chain", "tree-2", "tree-3"])


def make_tree(shape: str, members: list[str]) -> dict[str, str | None]:
    tree = expected_tree(shape, members)
    assert tree is not None
    return tree


def voters(nodes: int) -> list[str]:
    return [name for name, role in member_roles(nodes).items() if role != "read-only"]


@given(SHAPES, st.integers(1, 50))
def test_replication_tree_of_each_shape_reaches_every_member_from_the_primary(shape: str, count: int) -> None:
    members = [f"member{number}" for number in range(count)]
    tree = make_tree(shape, members)
    assert tree[members[0]] is None
    assert set(depths(tree, members[0])) == set(members)


@given(st.integers(1, 5), st.integers(2, 50))
def test_replication_tree_fills_each_level_up_to_its_width_before_the_next_level(width: int, count: int) -> None:
    members = [f"member{number}" for number in range(count)]
    tree = make_tree(f"tree-{width}", members)
    followers = [sum(source == name for source in tree.values()) for name in members]
    assert followers == sorted(followers, reverse=True)
    assert max(followers) <= width
    assert sum(0 < count < width for count in followers) <= 1
    deep = list(depths(tree, members[0]).values())
    assert deep == sorted(deep)


@pytest.mark.parametrize(
    ("shape", "nodes", "hops"),
    [("star", 3, 1), ("chain", 3, 1), ("star", 7, 1), ("chain", 7, 3), ("tree-2", 7, 2), ("chain", 15, 3)],
)
def test_voting_members_replicate_only_from_voting_members(shape: str, nodes: int, hops: int) -> None:
    tree = make_tree(shape, list(member_roles(nodes)))
    assert {tree[name] for name in voters(nodes)} <= {None, *voters(nodes)}
    assert hops_to_majority(tree, "primary", voters(nodes)) == hops


def test_members_that_replicate_only_from_each_other_are_not_reached_from_the_primary() -> None:
    tree = {"primary": None, "secondary-1": "secondary-2", "secondary-2": "secondary-1", "hidden": "elsewhere:27017"}
    assert depths(tree, "primary") == {"primary": 0}
    assert hops_to_majority(tree, "primary", list(tree)) is None


def test_text_of_a_replication_tree_lists_each_source_with_its_followers() -> None:
    text = "primary: secondary-1, secondary-2; secondary-1: secondary-3, secondary-4; secondary-2: secondary-5, hidden"
    assert tree_text(make_tree("tree-2", list(member_roles(7)))) == text
    assert expected_tree("natural", list(member_roles(7))) is None


@pytest.mark.parametrize(("nodes", "voting", "electable"), [(3, 3, 2), (7, 7, 6), (15, 7, 6)])
def test_replica_set_has_the_published_number_of_voting_and_electable_members(
    nodes: int, voting: int, electable: int
) -> None:
    roles = list(member_roles(nodes).values())
    assert (len(roles), len(voters(nodes)), roles.count("hidden")) == (nodes, voting, 1)
    assert roles.count("primary") + roles.count("secondaries") == electable


NAMES = ("primary", "secondary-1", "hidden")


def member(source: str | None, state: str = "SECONDARY", applied_ms: float = 1000.0, fetched: int = 0) -> MemberReading:
    return MemberReading(state, source, Timestamp(1, 1), applied_ms, fetched)


def chain(fetched: int = 0, **changed: MemberReading) -> SetReading:
    """Return readings of a replica set: `secondary-1` replicates from the primary, and `hidden` from `secondary-1`."""
    members = {
        "primary": member(None, "PRIMARY"),
        "secondary-1": member("primary", applied_ms=990.0, fetched=fetched),
        "hidden": member("secondary-1", applied_ms=960.0, fetched=fetched),
    }
    return SetReading({**members, **changed}, {}, {})


@pytest.mark.parametrize(
    ("reading", "fault"),
    [
        (chain(), None),
        (chain(hidden=member(None, "STARTUP2")), "hidden is in state STARTUP2"),
        (chain(primary=member("secondary-1")), "primary is in state SECONDARY"),
        (SetReading(chain().members, {"hidden": "connection closed"}, {}), "hidden cannot be read: connection closed"),
    ],
)
def test_unhealthy_replica_set_is_reported_with_the_name_of_the_member(reading: SetReading, fault: str | None) -> None:
    assert reading.fault("primary") == fault


def test_changed_or_wrong_replication_tree_is_reported_as_a_mismatch() -> None:
    expected, other = expected_tree("chain", NAMES), chain(hidden=member("primary"))
    assert tree_mismatch(expected, chain(), chain()) is None
    assert tree_mismatch(None, other, other) is None
    assert "changed from" in (tree_mismatch(expected, chain(), other) or "")
    assert "the sync tree was" in (tree_mismatch(expected, other, other) or "")


def test_oplog_bytes_count_what_members_fetched_from_the_primary_during_the_measurement() -> None:
    figures = replication_figures(chain(fetched=100), chain(fetched=1100), NAMES, operations=10)
    assert (figures["oplog_bytes_sent"], figures["hops_to_majority"]) == (100.0, 1.0)
    assert figures["replication_lag_ms"] == pytest.approx((10.0 + 40.0) / 2)
    assert figures["replication_lag_max_ms"] == 40.0
    without_primary = chain(primary=member(None))
    assert replication_figures(without_primary, without_primary, NAMES, operations=10) == {}
