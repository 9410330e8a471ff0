"""Conversion of plans and records of earlier ledger versions to the current keys."""

from __future__ import annotations

from typing import Any

#: New names of the keys that versions 8 and 9 renamed in levels and in the settings of arms, by old name.
_SETTINGS = {"own": "target", "seen": "evidence", "proof": "verify"}
_PLAN = {"protection_asked": "protection_chosen"}
_LOAD = {"told_per_second": "commands_per_second"}
_ARM = {"asked": "settings", "twin": "replicate", "baseline": "control_arm"}
_LIMIT = {"said": "text"}
_RECORD_KINDS = {"proof": "evidence", "caution": "warning"}
_LINK = {"asked_ms": "nominal_ms"}


def update_plan(plan: dict[str, Any]) -> None:
    """Rename the keys of a plan of an earlier version, in place. A current plan stays unchanged."""
    _rename(plan, _PLAN)
    _rename(plan.get("load") or {}, _LOAD)
    for limit in plan.get("limits", []):
        _rename(limit, _LIMIT)
    for arm in plan.get("arms", []):
        _rename(arm, _ARM)
        _rename(arm.get("settings", {}), _SETTINGS)
    for factor in plan.get("study", {}).get("factors", {}).values():
        levels = factor.get("levels", {})
        for level in [*(levels.values() if isinstance(levels, dict) else []), factor.get("each", {})]:
            _rename(level, _SETTINGS)


def update_record(record: Any) -> None:
    """Rename the kind and the keys of a record of an earlier version, in place. A current record stays unchanged."""
    if not isinstance(record, dict):
        return
    kind = str(record.get("record"))
    record["record"] = _RECORD_KINDS.get(kind, kind)
    for link in record.get("links", []) if kind == "links" else []:
        _rename(link, _LINK)


def _rename(content: dict[str, Any], names: dict[str, str]) -> None:
    for old, new in names.items():
        if old in content:
            content[new] = content.pop(old)
