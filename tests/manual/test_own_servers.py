"""A study's page says whether the study can measure a user's own servers, and the command behaves accordingly."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from costof.cli.main import cli
from costof.errors import CostofError
from costof.lab.certificates import Authority
from costof.studies import study_names
from costof.study.library import load_study
from manual.own_servers import CA_FILE, TITLE, line, target_words
from manual.reports import DOCS


@pytest.mark.parametrize("name", study_names())
def test_study_page_says_whether_the_study_can_measure_the_users_own_servers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (DOCS / "studies" / f"{name}.md").read_text()
    (shown,) = (each for each in page.splitlines() if each.startswith(f"- **{TITLE}:**"))
    study = load_study(name)
    monkeypatch.chdir(tmp_path)
    Authority(tmp_path).ca_file.rename(CA_FILE)
    two_urls = "--plain-target" in target_words(study)
    if not two_urls:
        monkeypatch.setenv("COSTOF_PASSWORD", "example")
    measured = "measured with `" in shown
    words = shlex.split(shown.split("`")[1]) if measured else ["costof", "run", name, *target_words(study)]
    ended = CliRunner().invoke(cli, [*words[1:], "--dry-run"])
    if measured:
        assert ended.exit_code == 0, ended.exception
    else:
        assert isinstance(ended.exception, CostofError)
        assert ended.exception.exit_status == 2
        assert str(ended.exception).split(";")[0] in shown


def test_line_says_what_a_pooler_adds_and_what_a_replica_set_is_not_compared_in() -> None:
    assert line("postgres-pooling").endswith("; `--pooler` adds `your-pool` and `your-pool-tls`.")
    assert line("mongodb-chained-replication").endswith("; this compares the write concern, not the sync topology.")
