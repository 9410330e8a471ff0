"""Studies: where they come from, and what their levels ask for."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from costof.errors import CostofError
from costof.study.library import load_study
from costof.study.schema import AS_SERVED
from tests.support.engines import sent


def test_an_unknown_study_names_the_nearest() -> None:
    with pytest.raises(CostofError, match="did you mean 'mongodb-tls'"):
        load_study("mongo-tls")


def test_levels_ask_in_the_order_of_the_study_and_as_served_asks_for_nothing() -> None:
    study = load_study("mysql-transport")
    weak = study.asked({"transport": "tls", "suite": "aes256-sha", "key": "rsa-1024"})
    assert weak.transport is not None
    assert sent(weak.transport) == {
        "kind": "tls",
        "cipher": "AES256-SHA",
        "security_level": 0,
        "verify": "full",
        "resumption": False,
    }
    assert (weak.lab, weak.seen) == ({"key": "rsa-1024"}, {"key": "rsa-1024"})
    assert study.asked({"transport": "tls", "key": AS_SERVED}).lab == {}
    tunnel = study.asked({"transport": "ssh-aes256-ctr"})
    assert (tunnel.lab, tunnel.near_round_trips, tunnel.speaks_tls) == ({"tunnel": "aes256-ctr"}, 1, False)


def test_a_file_of_the_users_is_a_study(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    text = resources.files("costof.studies").joinpath("mysql-transport.toml").read_text()
    file.write_text(text)
    mine = load_study(str(file))
    assert mine == load_study("mysql-transport").model_copy(update={"name": "mine"})
    for broken, detail in (("x = 1", "title: Field required"), ("title = [", "Invalid value"), (None, "No such file")):
        file.unlink() if broken is None else file.write_text(broken)
        with pytest.raises(CostofError, match=f"mine.toml is not valid: {detail}") as told:
            load_study(str(file))
        assert told.value.exit_status == 2
    with pytest.raises(CostofError, match="small letters, digits and hyphens"):
        load_study(str(tmp_path / "Mine own.toml"))


@pytest.mark.parametrize(
    ("changed", "detail"),
    [
        ('when = { transport = ["tsl"] }', "applies with unknown levels of transport: tsl"),
        ('when = { transprot = ["tls"] }', "applies with levels of the unknown factor transprot"),
    ],
)
def test_what_applies_with_no_arm_is_refused(changed: str, detail: str, tmp_path: Path) -> None:
    text = resources.files("costof.studies").joinpath("mysql-transport.toml").read_text()
    when = next(line for line in text.splitlines() if line.startswith("when = {"))
    file = tmp_path / "mine.toml"
    file.write_text(text.replace(when, changed, 1))
    with pytest.raises(CostofError, match=detail):
        load_study(str(file))
