"""Tests of which statements of a load generator must be in an audit log."""

from __future__ import annotations

from pathlib import Path

import pytest

from costof.errors import CostofError
from costof.lab.log_file import LogFile
from costof.messages.answers import REPORTED, REPORTED_FAILURE
from costof.programs.audit import OF_CLASS, entries_mismatch, statements_sent
from costof.programs.postgres.audit import find_pgaudit
from tests.fake_run import Slice, answer_of, error_of

STATEMENTS = {"read": 1, "write": 4}


@pytest.mark.parametrize(
    ("audited", "read", "write", "expected"),
    [
        ({"read", "write"}, 95, 360, None),
        ({"read", "write"}, 90, 360, None),
        ({"read", "write"}, 89, 360, "89 entries of class read for 90 audited statements"),
        ({"write"}, 0, 361, None),
        ({"write"}, 1, 360, "1 entry of class read for 0 audited statements"),
        (set(), 0, 0, None),
    ],
)
def test_audit_log_that_contradicts_the_statements_of_a_load_generator_is_a_mismatch(
    audited: set[str], read: int, write: int, expected: str | None, tmp_path: Path
) -> None:
    failed = [error_of(REPORTED_FAILURE, "", 10)]
    answer = answer_of(Slice(1, 1.0, {}, {}, {}, errors=failed, counts={REPORTED: 100}), "client", "arm")
    sent = statements_sent(None, answer, STATEMENTS)
    assert sent == {"read": 90, "write": 360}
    increases = {f"{OF_CLASS}read": float(read), f"{OF_CLASS}write": float(write)}
    found = entries_mismatch(audited, sent, increases, answer, LogFile(tmp_path / "log"))
    assert found == (expected and f"the audit log got {expected}")


def test_missing_pgaudit_extension_is_reported_with_its_debian_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COSTOF_PGAUDIT", str(tmp_path / "no.so"))
    with pytest.raises(CostofError, match=r"needs pgaudit .*apt-get install postgresql-15-pgaudit"):
        find_pgaudit(tmp_path / "15" / "bin" / "postgres")
