"""Studies of commands: defaults of their files, and errors before anything is run."""

from __future__ import annotations

import json
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from costof.cli.new import new
from costof.errors import CostofError
from costof.instruments.commands import templates
from costof.instruments.commands.readers import reader, reader_names
from costof.programs.access import Access
from costof.services.command.lab import Commands
from costof.services.open import shown_urls
from costof.studies import study_names
from costof.study.library import load_study, read_study
from costof.study.plan import Options, Plan, resolve
from costof.study.schema import Study
from tests.support.command import costof

SCHEMA_FILE = Path(str(resources.files("costof.study"))) / "schema.json"
SCHEMA = json.loads(SCHEMA_FILE.read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
FILE = """
title = "What does TLS cost?"
service = "command"
control.transport = "plain"
[factors.transport.levels]
plain = { set = { tls = "", name = "a b" } }
tls = { label = "TLS", set = { tls = "--tls --ca 'my ca'", name = "c" }, environment.CA = "{name}.pem" }
[factors.transport.each]
before = "on {name}"
after = "off {name}"
verify = { run = "state", matches = "{level}" }
[factors.log.levels]
quiet = { before = "quiet", after = "loud", verify = [] }
[workloads.load.command]
run = "load {tls} --for {seconds} '{name}' --out {output} {{name}}"
"""


def study(text: str = FILE, **changes: Any) -> Study:
    return read_study("mine", {**tomllib.loads(text), **changes})


def plan(text: str = FILE) -> Plan:
    return resolve(study(text), Options(profile="quick", seed=1))


def refused(text: str) -> str:
    with pytest.raises(CostofError) as caught:
        Commands(plan(text))
    assert caught.value.exit_status == 2
    return str(caught.value)


def test_fields_that_a_study_file_omits_have_defaults() -> None:
    made = study()
    assert made.question == made.title
    assert made.factors["transport"].default == ["plain", "tls"]
    assert [name for name, each in made.workloads.items() if each.view == "command"] == ["load"]
    assert list(made.profiles) == ["quick", "default"]


def test_run_time_is_a_metric_only_if_the_command_has_no_fixed_duration() -> None:
    first, again = study(), study(FILE.replace("{seconds}", "7"))
    assert "load.time" not in first.metrics
    assert again.metrics["load.time"].headline
    sizes = [made.profiles["quick"].slices["load"].operations for made in (first, again)]
    assert sizes[0] == 1 < sizes[1]


def test_run_time_is_no_headline_metric_if_the_program_prints_figures() -> None:
    made = study(FILE.replace("{seconds}", "7") + 'read = "pgbench"\n')
    headline = {name for name, metric in made.metrics.items() if metric.headline}
    assert "load.tps" in headline
    assert "load.time" not in headline


def test_value_of_a_placeholder_may_be_several_words_of_a_command_line() -> None:
    of = {arm.name: Commands(plan()).endpoint(arm).service for arm in plan().arms}
    settings = {name: each.model_dump() for name, each in of.items()}
    control, tls = settings["plain"], settings["tls"]
    shown = ["load", "--for", "2", "a b", "--out", str(control["output"]), "{name}"]
    assert control["programs"]["load"]["argv"] == shown
    assert tls["programs"]["load"]["argv"][1:4] == ["--tls", "--ca", "my ca"]
    assert tls["environment"] == {"CA": "c.pem"}
    assert tls["verify"] == [{"argv": ["state"], "matches": "tls"}]


def test_commands_that_undo_the_settings_of_an_arm_run_in_reverse_order() -> None:
    arm = next(arm for arm in plan().arms if arm.name == "tls")
    settings = Commands(plan()).endpoint(arm).service.model_dump()
    assert settings["before"] == [["on", "c"], ["quiet"]]
    assert settings["after"] == [["loud"], ["off", "c"]]


def test_second_copy_of_the_control_runs_the_same_commands_as_the_control() -> None:
    commands = Commands(plan())
    control, replicate = plan().arms[:2]
    assert commands.endpoint(control) == commands.endpoint(replicate)


def test_placeholder_that_an_arm_does_not_set_is_refused_before_anything_runs() -> None:
    assert "did you mean 'name'" in refused(FILE.replace("'{name}' --out", "'{nam}' --out"))
    assert "{ca}" in refused(FILE.replace("plain = { set = {", "plain = { set = { ca = 'x',").replace("{tls}", "{ca}"))


@pytest.mark.parametrize(
    ("before", "after", "shown", "remedy"),
    [
        ("load {tls}", "load {tls} > log", "contains '>'", "remove -N (set shell = true in a study's file)"),
        ('tls = "--tls', 'tls = "| --tls', "contains '|'", "set shell = true"),
        ("on {name}", "on {name} && true", "'on a b && true' contains '&&'", "write sh -c '…'"),
        ("off {name}", "off *", "'off *' contains '*'", "write sh -c '…'"),
        ('run = "state"', 'run = "state $LEVEL"', "'state $LEVEL' contains '$'", "write sh -c '…'"),
    ],
)
def test_shell_syntax_is_refused_in_lines_that_no_shell_runs(before: str, after: str, shown: str, remedy: str) -> None:
    error = refused(FILE.replace(before, after))
    assert shown in error
    assert remedy in error


SHELL = """
title = "What does it cost?"
service = "command"
control.it = "off"
[factors.it.levels]
off = { set.words = "awk '{print}' ${own}" }
on = { set.words = "{seconds} {{seconds}}", set.more = "1" }
[workloads.load.command]
run = '{words} {a,b} ${v} | while read x; do echo "$x"; done'
shell = true
"""


def test_braces_that_are_no_placeholders_are_kept_in_shell_lines() -> None:
    of = {arm.name: Commands(plan(SHELL)).endpoint(arm).service.model_dump() for arm in plan(SHELL).arms}
    scripts = {name: each["programs"]["load"]["argv"][2] for name, each in of.items()}
    rest = '{a,b} ${v} | while read x; do echo "$x"; done'
    assert scripts["off"] == f"awk '{{print}}' ${{own}} {rest}"
    assert scripts["on"] == f"0.5 {{seconds}} {rest}"


@pytest.mark.parametrize("place", ["${v}", "awk '{print}'"])
def test_shell_line_is_refused_if_an_arm_leaves_one_of_its_placeholders_unset(place: str) -> None:
    assert "contains the placeholder {more}" in refused(SHELL.replace(place, place + " {more}"))


def test_warning_about_a_password_in_a_command_line_does_not_show_it() -> None:
    text = FILE.replace("load {tls}", "mysql -pS3cret {tls}").replace("off {name}", "redis-cli -a S3cret")
    text = text.replace("environment.CA =", "environment.CA_TOKEN =")
    (warning,) = Commands(plan(text)).early_warnings()
    assert "-p of 'mysql', -a of 'redis-cli' and CA_TOKEN looks like a password" in warning
    assert "S3cret" not in warning
    assert Commands(plan()).early_warnings() == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ('read = "pgbanch"', "did you mean 'pgbench'"),
        ('figures.rate = { json = "rate", unit = "ms" }', "not a JSON pointer"),
        ('figures.rate = { json = "/rate", regex = "(.)", unit = "ms" }', "either `json` or `regex`"),
        ('figures.rate = { regex = "rate: .*", unit = "ms" }', "has no group"),
        ('figures.rate = { regex = "rate: (.*", unit = "ms" }', "not a valid regular expression"),
        ("timeout_seconds = 0", "greater than 0"),
        ("seconds = -1", "greater than 0"),
        ("runs = 7", "runs: Extra inputs"),
        (
            '[factors.log.each]\nproof = { run = "state", matches = "" }',
            "log.each: the key `proof` has a new name",
        ),
        ("[secrets]\nPASSWORD = {}", "either `file` or `environment`"),
    ],
)
def test_error_about_a_study_file_names_the_invalid_field_or_factor_level(wrong: str, message: str) -> None:
    with pytest.raises(CostofError) as caught:
        study(FILE + wrong)
    assert caught.value.exit_status == 2
    assert message in str(caught.value)


def test_option_target_is_refused_for_a_study_of_commands() -> None:
    with pytest.raises(CostofError, match="remove --target"):
        shown_urls(study(), Access("mysql://localhost"))


def test_committed_study_schema_is_current_and_every_study_conforms_to_it() -> None:
    schema = Study.model_json_schema()
    assert {*SCHEMA["properties"]} == {*schema["properties"]} - {"name"}
    assert {name: part["properties"] for name, part in SCHEMA["$defs"].items() if "properties" in part} == {
        name: part["properties"] for name, part in schema["$defs"].items() if "properties" in part
    }, "stale: python -m costof.study > costof/study/schema.json"
    VALIDATOR.validate(tomllib.loads(FILE))
    for name in study_names():
        VALIDATOR.validate(tomllib.loads((resources.files("costof.studies") / f"{name}.toml").read_text()))


@pytest.mark.parametrize("program", ["command", *reader_names()])
def test_study_file_written_by_costof_new_is_valid(program: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    CliRunner().invoke(new, [str(file), "--from", program], catch_exceptions=False)
    schema, text = file.read_text().split("\n", 1)
    assert Path(schema.removeprefix("#:schema file://")) == SCHEMA_FILE
    VALIDATOR.validate(tomllib.loads(text))
    made = load_study(str(file))
    assert len(Commands(resolve(made, Options(profile="quick"))).commands()) >= 2
    if program != "command":
        headline = {f"figure.{name}" for name, each in reader(program).figures.items() if each.headline}
        assert headline <= {metric.phase for metric in made.metrics.values()}


def test_template_of_a_study_file_defines_its_arms_in_at_most_ten_lines() -> None:
    """The test does not count blank lines and comments."""
    for program in ("pgbench", "wrk", "fio", "redis-benchmark"):
        text = (resources.files(templates) / f"{program}.toml").read_text()
        arms = text[text.index("[factors") :]
        lines = [line for line in arms.splitlines() if line.strip() and not line.startswith("#")]
        assert len(lines) <= 10, program


def test_costof_new_never_overwrites_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("mine")
    for name in ("mine.toml", "mine.txt", "nowhere/mine.toml"):
        with pytest.raises(CostofError):
            CliRunner().invoke(new, [str(tmp_path / name)], catch_exceptions=False)
    assert (tmp_path / "mine.toml").read_text() == "mine"


def test_command_without_closing_quotation_mark_is_quoted_in_the_error(tmp_path: Path) -> None:
    ended = costof("versus", "echo it's", "echo b", cwd=tmp_path)
    assert ended.error_lines == [
        "costof: cannot run the command 'echo it's': it has no closing quotation mark; add it, or write \\' or "
        '\\" for the mark itself'
    ]


def test_dry_run_of_costof_versus_shows_every_command_and_runs_none(tmp_path: Path) -> None:
    ended = costof("versus", "--dry-run", "touch ran {seconds}", "touch ran {{seconds}}", cwd=tmp_path)
    assert ended.status == 0
    assert "command   a: run touch ran 2\n" in ended.out
    assert "command   b: run touch ran '{seconds}'\n" in ended.out
    assert not list(tmp_path.iterdir())
