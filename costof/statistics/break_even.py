"""Break-even points: how many operations a connection must carry until a protection adds only, say, 5 % of time.

If a protection makes connections faster but operations slower, it saves time up to a number of operations, which is
computed too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from costof.statistics.intervals import bootstrap_shares, resamples

RESAMPLES = 2000


@dataclass(frozen=True)
class Rounds:
    """Mean times of a connection and of an operation, on the control and on an arm.

    Each sequence has one mean per round. All sequences cover the same rounds.
    """

    control_connection: Sequence[float]
    arm_connection: Sequence[float]
    control_operation: Sequence[float]
    arm_operation: Sequence[float]


@dataclass(frozen=True)
class Operations:
    """A number of operations on each connection, with its 95 % interval; infinite if no number is enough."""

    value: float
    low: float
    high: float


def break_even(rounds: Rounds, share: float, seed: int) -> Operations:
    """Return the operations per connection from which the added time is below `share` of the control's time.

    A connection with n operations takes C + n q on the control: C to open it, and q for each operation. On the arm it
    takes dC + n dq longer. The added time is below share (C + n q) from n = (dC - share C) / (share q - dq) on. If dq
    is not below share q, no n is enough. The interval is a percentile bootstrap over rounds, or over starts of the
    servers (Efron 1979; Hesterberg 2015), since the ratio of two uncertain numbers has no simple interval.
    """
    return _resampled(rounds, seed, lambda figures: _needed(figures, share))


def saves_below(rounds: Rounds, seed: int) -> Operations:
    """Return the number of operations on each connection up to which the arm takes less time than the control.

    If opening a connection saves -dC, and each operation costs dq, the saving is used up after n = -dC / dq operations.
    The result is 0 if connections save no time, and infinite if operations cost no time. The interval is computed as in
    `break_even`.
    """
    return _resampled(rounds, seed, _saved)


def _resampled(rounds: Rounds, seed: int, function: Callable[[np.ndarray], np.ndarray]) -> Operations:
    connection, operation = np.asarray(rounds.control_connection), np.asarray(rounds.control_operation)
    table = np.stack([connection, rounds.arm_connection - connection, operation, rounds.arm_operation - operation])
    count = len(connection)
    values = function(table @ resamples(range(count), seed, RESAMPLES).T / count)
    middle, resampled = float(values[0]), np.sort(values[1:])
    low, high = (float(resampled[int(q * (RESAMPLES - 1))]) for q in bootstrap_shares(count))
    return Operations(middle, min(low, middle), max(high, middle))


def _needed(figures: np.ndarray, share: float) -> np.ndarray:
    connection, extra_connection, operation, extra_operation = figures
    over = extra_connection - share * connection
    room = share * operation - extra_operation
    with np.errstate(divide="ignore", invalid="ignore"):
        # If `room` is not positive, each operation alone adds at least the allowed share of its own time. More
        # operations then never bring the total below that share, even if opening the connection saves time.
        needed: np.ndarray = np.where(room > 0, np.maximum(0.0, over / room), np.inf)
    return needed


def _saved(figures: np.ndarray) -> np.ndarray:
    _, extra_connection, _, extra_operation = figures
    with np.errstate(divide="ignore", invalid="ignore"):
        pays = np.where(extra_operation > 0, -extra_connection / extra_operation, np.inf)
    saved: np.ndarray = np.where(extra_connection < 0, pays, 0.0)
    return saved
