"""The way from the machine that measured to a target, which nobody has asked for and nobody can change."""

from __future__ import annotations

from costof.results.run import Run

TCP = "tcp"


def way_to_target_ms(run: Run) -> float:
    """Return its round trip: the shortest TCP handshake of a control, which waited for nothing else.

    It is 0 where no handshake was timed by itself.
    """
    controls = {arm.name for arm in run.plan.controls}
    found = [
        piece.answer.phases[TCP].min_ns / 1e6
        for piece in run.counted
        if piece.answer.arm in controls and TCP in piece.answer.phases
    ]
    return min(found, default=0.0)
