"""From how many operations a connection an arm costs less than a share, and up to how many it saves."""

from __future__ import annotations

from pydantic import Field

from costof import format as fmt
from costof.model import Finite, Model

SHARES = (0.05, 0.01)


class Until(Model):
    """Up to how many operations a connection the arm takes less time than the control."""

    operations: Finite
    low: Finite
    high: Finite | None = Field(description="None: the interval has no upper end in this run.")


class Point(Model):
    """From how many operations a connection the arm costs less than `share` of the control's time."""

    view: str
    arm: str
    share: Finite
    operations: Finite | None = Field(description="Estimate; None: never, as measured.")
    low: Finite | None
    high: Finite | None = Field(description="None: the interval has no upper end in this run.")
    saves: Until | None = Field(default=None, description="Where its connections save and its operations cost.")


def whole(operations: float) -> str:
    """Operations of a connection are whole: rounded up, since at the one below the share is not yet kept."""
    return fmt.number(-(-operations // 1), 0)
