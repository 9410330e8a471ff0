"""What forbids a user namespace is told with what would allow it."""

from __future__ import annotations

from pathlib import Path

import pytest

from costof.lab.user_namespace import FORBIDDING, reason


@pytest.mark.parametrize("name", FORBIDDING)
def test_a_setting_that_forbids_is_named_with_one_that_allows(name: str, tmp_path: Path) -> None:
    for other, (_, allows) in FORBIDDING.items():
        file = tmp_path / other.replace(".", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{allows}\n")
    forbids, allows = FORBIDDING[name]
    (tmp_path / name.replace(".", "/")).write_text(f"{forbids}\n")
    told = reason("unshare: unshare failed: Operation not permitted\n", tmp_path)
    assert told == f"{name} is {forbids}, which forbids user namespaces; allow them by: sudo sysctl {name}={allows}"


def test_a_reason_that_no_setting_tells_is_what_was_said(tmp_path: Path) -> None:
    assert "(unshare: it failed: No space left)" in reason("unshare: it failed:\n No space left\n", tmp_path)
