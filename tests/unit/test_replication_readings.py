"""What readings of a set's members say: a set that is not whole, a tree that changed, and the figures of a slice."""

from __future__ import annotations

import pytest
from bson import Timestamp

from costof.services.replication.shape import MemberReading, SetReading, figures_of, tree_mismatch, wanted_tree

NAMES = ("primary", "secondary-1", "hidden")


def member(source: str | None, state: str = "SECONDARY", applied_ms: float = 1000.0, fetched: int = 0) -> MemberReading:
    return MemberReading(state, source, Timestamp(1, 1), applied_ms, fetched)


def chain(fetched: int = 0, **changed: MemberReading) -> SetReading:
    """primary <- secondary-1 <- hidden."""
    members = {
        "primary": member(None, "PRIMARY"),
        "secondary-1": member("primary", applied_ms=990.0, fetched=fetched),
        "hidden": member("secondary-1", applied_ms=960.0, fetched=fetched),
    }
    return SetReading({**members, **{name.replace("_", "-"): each for name, each in changed.items()}}, {}, {})


@pytest.mark.parametrize(
    ("reading", "told"),
    [
        (chain(), None),
        (chain(hidden=member(None, "STARTUP2")), "hidden is in STARTUP2"),
        (chain(primary=member("secondary-1")), "primary is in SECONDARY"),
        (SetReading(chain().members, {"hidden": "connection closed"}, {}), "hidden cannot be asked: connection closed"),
    ],
)
def test_a_set_that_is_not_whole_is_told(reading: SetReading, told: str | None) -> None:
    assert reading.fault("primary") == told


def test_a_tree_must_be_the_arms_all_through() -> None:
    wanted = wanted_tree("chain", NAMES)
    astray = chain(hidden=member("primary"))
    assert tree_mismatch(wanted, chain(), chain()) is None
    assert tree_mismatch(None, astray, astray) is None
    assert "changed from" in (tree_mismatch(wanted, chain(), astray) or "")
    assert "the tree was" in (tree_mismatch(wanted, astray, astray) or "")


def test_figures_are_of_the_primarys_own_followers_and_of_the_slice() -> None:
    found = figures_of(chain(fetched=100), chain(fetched=1100), NAMES, operations=10)
    assert found["oplog_bytes_sent"] == 100.0
    assert found["hops_to_majority"] == 1.0
    assert found["replication_lag_ms"] == pytest.approx((10.0 + 40.0) / 2)
    assert found["replication_lag_max_ms"] == 40.0


def test_without_a_primary_there_are_no_figures() -> None:
    headless = chain(primary=member(None))
    assert figures_of(headless, headless, NAMES, operations=10) == {}
