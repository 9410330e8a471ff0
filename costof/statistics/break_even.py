"""Break-even points: how many operations a connection must carry until a protection adds only, say, 5 % of time.

If a protection opens connections faster but makes operations slower, it saves time on connections with few operations.
The number of operations up to which it saves time is computed too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from costof.statistics.intervals import bootstrap_shares, resamples

RESAMPLES = 2000


@dataclass(frozen=True)
class Rounds:
    """Mean times of a connection and of an operation, on the control and on an arm. All are from the same rounds."""

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
    """Return how many operations a connection needs, so that the arm adds less than `share` of the control's time.

    On the control, a connection with n operations takes C + n q: C to open the connection, and q for each operation.
    The arm adds dC to C, and dq to q. The added time dC + n dq is below share (C + n q) if n is larger than (dC - share
    C) / (share q - dq). If dq is at least share q, no n is large enough.

    The interval is a percentile bootstrap over rounds, or over starts of the servers (Efron 1979; Hesterberg 2015),
    since the ratio of two uncertain numbers has no simple interval.
    """
    return _resampled(rounds, seed, lambda figures: _needed(figures, share))


def saves_below(rounds: Rounds, seed: int) -> Operations:
    """Return the number of operations on each connection up to which the arm takes less time than the control.

    The arm saves the time s when it opens a connection, and adds dq to each operation. After n = s / dq operations, the
    saving is used up. The result is 0 if s is not positive, and infinite if s is positive but dq is not. The interval
    is computed as in `break_even`.
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
        # If `room` is not positive, each operation adds at least the allowed share of its own time. The result is then
        # infinite, even if opening the connection saves time: with many operations, the added time exceeds the share.
        needed: np.ndarray = np.where(room > 0, np.maximum(0.0, over / room), np.inf)
    return needed


def _saved(figures: np.ndarray) -> np.ndarray:
    _, extra_connection, _, extra_operation = figures
    with np.errstate(divide="ignore", invalid="ignore"):
        pays = np.where(extra_operation > 0, -extra_connection / extra_operation, np.inf)
    saved: np.ndarray = np.where(extra_connection < 0, pays, 0.0)
    return saved
