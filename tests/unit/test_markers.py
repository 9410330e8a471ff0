"""What `costof clean` goes by: a marker, and the process that made it."""

from __future__ import annotations

from pathlib import Path

from costof.programs.target_database import Maker, read_marker
from tests.support.command import costof


def test_a_url_of_another_kind_is_refused(tmp_path: Path) -> None:
    done = costof("clean", "--target", "https://u:S3cret@h/", cwd=tmp_path)
    assert done.status == 2
    assert "S3cret" not in done.err


def test_a_maker_is_known_by_its_number_and_its_start() -> None:
    here = Maker.this_process()
    assert here.lives() is True
    assert here.model_copy(update={"started": here.started - 1}).lives() is False
    assert here.model_copy(update={"pid": 2**22 + 1}).lives() is False
    assert here.model_copy(update={"machine": "another"}).lives() is None


def test_a_marker_that_names_more_than_a_table_is_not_intact() -> None:
    maker = Maker.this_process().model_dump()
    about = {"run": "r", "maker": maker, "made_database": True}
    assert read_marker({**about, "tables": ["usertable"]}) is not None
    for table in ("x`,`mysql`.`user", "", "a b", "a\n"):
        assert read_marker({**about, "tables": [table]}) is None
    assert read_marker({**about, "tables": [], "more": 1}) is None
