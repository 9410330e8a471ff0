"""Trees of who follows whom: shapes, depths, hops to a majority."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costof.services.replication.lab import roles_of
from costof.services.replication.shape import depths, hops_to_majority, told, wanted_tree

MEMBERS = list(roles_of(7))
SHAPES = st.sampled_from(["star", "chain", "tree-2", "tree-3"])


def names(count: int) -> list[str]:
    return [f"member{number}" for number in range(count)]


@given(SHAPES, st.integers(1, 50))
def test_a_shape_reaches_every_member_from_the_primary(shape: str, count: int) -> None:
    members = names(count)
    tree = wanted_tree(shape, members)
    assert tree is not None
    assert tree[members[0]] is None
    assert set(depths(tree, members[0])) == set(members)


@given(st.integers(1, 5), st.integers(2, 50))
def test_a_tree_is_as_wide_as_it_says_and_filled_from_the_top(width: int, count: int) -> None:
    members = names(count)
    tree = wanted_tree(f"tree-{width}", members)
    assert tree is not None
    followers = [sum(source == name for source in tree.values()) for name in members]
    assert followers == sorted(followers, reverse=True)
    assert max(followers) <= width
    assert sum(0 < count < width for count in followers) <= 1
    deep = list(depths(tree, members[0]).values())
    assert deep == sorted(deep)


@given(SHAPES, st.sampled_from([3, 7, 15]))
def test_the_path_to_a_majority_is_of_voters_alone(shape: str, nodes: int) -> None:
    roles = roles_of(nodes)
    tree = wanted_tree(shape, list(roles))
    assert tree is not None
    voters = [name for name, role in roles.items() if role != "read-only"]
    assert all(tree[name] in (None, *voters) for name in voters)


@pytest.mark.parametrize(
    ("shape", "nodes", "hops"),
    [("star", 3, 1), ("chain", 3, 1), ("star", 7, 1), ("chain", 7, 3), ("tree-2", 7, 2), ("chain", 15, 3)],
)
def test_hops_to_a_majority(shape: str, nodes: int, hops: int) -> None:
    roles = roles_of(nodes)
    tree = wanted_tree(shape, list(roles))
    assert tree is not None
    voters = [name for name, role in roles.items() if role != "read-only"]
    assert hops_to_majority(tree, "primary", voters) == hops


def test_members_that_follow_each_other_are_reached_from_nowhere() -> None:
    tree = {"primary": None, "secondary-1": "secondary-2", "secondary-2": "secondary-1", "hidden": "elsewhere:27017"}
    assert depths(tree, "primary") == {"primary": 0}
    assert hops_to_majority(tree, "primary", list(tree)) is None


def test_a_tree_in_words() -> None:
    tree = wanted_tree("tree-2", MEMBERS)
    assert tree is not None
    assert told(tree) == (
        "primary: secondary-1, secondary-2; secondary-1: secondary-3, secondary-4; secondary-2: secondary-5, hidden"
    )
    assert wanted_tree("natural", MEMBERS) is None


@pytest.mark.parametrize(("nodes", "voting", "electable"), [(3, 3, 2), (7, 7, 6), (15, 7, 6)])
def test_members_have_the_published_roles(nodes: int, voting: int, electable: int) -> None:
    roles = list(roles_of(nodes).values())
    assert len(roles) == nodes
    assert roles.count("read-only") == nodes - voting
    assert roles.count("primary") + roles.count("secondaries") == electable
    assert roles.count("hidden") == 1
