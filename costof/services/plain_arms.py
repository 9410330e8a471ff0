"""Plain arms of a target of which TLS was asked: they are not tried, unless the user allows it."""

from __future__ import annotations

from costof.study.arms import PlannedArm


def barred_by_tls(arm: PlannedArm, tls_asked: bool, allowed: bool) -> str | None:
    """Why a plain arm must not be tried; None for any other. Its log-in could be read on the way."""
    if not tls_asked or allowed or arm.asked.transport is None or arm.asked.transport.is_tls:
        return None
    return "TLS was asked of this target, so nothing is said to it in plain; --allow-plain has this arm measured too"
