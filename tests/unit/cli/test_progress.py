"""The displays of a run's progress (table, plain lines, JSON lines), and the figures that they show."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from costof.cli.progress import JsonLines, PlainLines, bar, open_display
from costof.results.figures import build_effects
from costof.results.ledger import Ledger, SliceRecord
from costof.results.run import read_run
from costof.run.events import EVENT, Event, RoundEvent, StageEvent
from costof.run.forecast import Pace, seconds_left, seconds_to_verdict
from costof.run.schedule import LOOKS
from costof.statistics.estimate import Estimate
from costof.study.library import load_study
from costof.study.plan import Options, resolve
from tests.fake_run import Truth, fake_run
from tests.noise import Noise
from tests.support.replay import Replay
from tests.support.small_plans import plan_of

STUDY = load_study("mongodb-tls")
ROUNDS = 12


class Kept:
    pause_seconds = 0.0

    def __init__(self) -> None:
        self.events: list[Event] = []

    def show(self, event: Event) -> None:
        self.events.append(event)

    def close(self) -> None: ...


def run_of(folder: Path, factor: float = 1.5, noise: float = 0.01, restarts: str | None = None) -> Ledger:
    plan = plan_of("mongodb-tls", restarts=restarts)
    truth = Truth({(name, "tls"): factor for name in plan.study.workloads})
    return fake_run(folder / "run", plan, truth, rounds=ROUNDS, noise=Noise(slice=noise))


def replayed(ledger: Ledger) -> list[Event]:
    replay, display = Replay(ledger), Kept()
    with replay.progress(display) as progress:
        replay.begin(progress)
        for _ in range(ROUNDS):
            replay.round(progress)
    return display.events


def test_live_figures_after_the_last_round_equal_the_figures_of_the_report(tmp_path: Path) -> None:
    ledger = run_of(tmp_path)
    lines = [*ledger.records()]
    (ledger.folder / "slices.jsonl").unlink()
    for record in lines:
        if isinstance(record, SliceRecord) and record.round == 3:
            # Simulate another program on the machine in this round.
            record = record.model_copy(update={"foreign_cpu_seconds": record.observed_seconds})
        if isinstance(record, SliceRecord) and record.round == 5 and record.answer.arm == "tls":
            record = record.model_copy(update={"mismatch": "the client did not use TLS"})
        ledger.append(record)
    last = replayed(ledger)[-1]
    assert isinstance(last, RoundEvent)
    run = read_run(ledger)
    headline = [each for each in build_effects(run) if run.plan.study.metrics[each.metric].headline]
    assert [(each.metric, each.arm, each.difference, each.ratio) for each in last.effects] == [
        (each.metric, each.arm, each.difference, each.ratio) for each in headline
    ]
    assert {each.difference.rounds for each in last.effects} == {ROUNDS - 2}
    assert last.last_discarded is not None
    assert (last.last_discarded.round, last.last_discarded.cause) == (6, "the client did not use TLS")
    # The disturbed round is recognized and discarded only when there are enough other rounds.
    assert last.discarded == 1 + len(run.plan.study.workloads)


def test_live_figures_of_a_run_with_restarts_use_one_value_for_each_start_of_the_servers(tmp_path: Path) -> None:
    ledger, display = run_of(tmp_path, restarts="3"), Kept()
    replay = Replay(ledger)
    with replay.progress(display):
        assert ledger.listener is not None
        for record in replay.records:
            ledger.listener(record)
    run = read_run(ledger)
    tally = Replay(ledger).progress(Kept(), run)._tally
    expected = [each.difference for each in build_effects(run) if run.plan.study.metrics[each.metric].headline]
    assert [each.change.difference.estimate(each.change.rounds) for each in tally.effects()] == expected
    assert {each.rounds for each in expected} == {3}


@pytest.mark.parametrize(
    ("options", "elapsed_seconds", "left"),
    [
        (Options(profile="quick", budget="50s"), 10.0, 40),
        (Options(profile="quick", budget="10h", at_most=12), 10.0, 50),
        (Options(profile="quick", rounds="5"), 20.0, 30),
    ],
)
def test_displayed_remaining_time_respects_the_budget_and_the_number_of_rounds(
    options: Options, elapsed_seconds: float, left: float
) -> None:
    assert seconds_left(resolve(STUDY, options), Pace(2, elapsed_seconds)) == pytest.approx(left)


def test_progress_predicts_a_verdict_at_the_next_interim_analysis_if_effects_are_clear(tmp_path: Path) -> None:
    replay = Replay(run_of(tmp_path))
    with replay.progress(Kept()) as progress:
        replay.begin(progress)
        for _ in range(6):
            replay.round(progress)
        effects, budget = progress._tally.effects(), replay.plan.budget_seconds
    assert budget is not None
    pace = Pace(6, 0.1 * budget)
    assert seconds_to_verdict(replay.plan, pace, effects, None, 0.9 * budget) == pytest.approx(
        (LOOKS[0] - 0.1) * budget
    )
    precise = replay.plan.model_copy(update={"precision": 0.01, "fewest_rounds": 5})
    # The width of an interval is inversely proportional to the square root of the number of rounds. With 6 rounds the
    # precision is 1.1 %. A precision of 1 % needs 6 * 1.1² = 7.3 rounds, so two more.
    assert seconds_to_verdict(precise, pace, effects, 0.011, 0.9 * budget) == pytest.approx(2 * pace.round_seconds)
    exact = resolve(STUDY, Options(rounds="8"))
    assert seconds_to_verdict(exact, pace, effects, None, 2.0) == 2.0


def test_progress_predicts_no_verdict_within_the_budget_if_effects_are_unclear(tmp_path: Path) -> None:
    events = replayed(run_of(tmp_path, factor=1.03, noise=0.3))
    rounds = [event for event in events if isinstance(event, RoundEvent)]
    assert all(event.verdict_seconds is None for event in rounds)
    needed = [each.needed_seconds for each in rounds[-1].effects]
    assert all(seconds is None or seconds > rounds[-1].seconds_left for seconds in needed)


def test_plain_progress_lines_are_printed_at_most_every_ten_seconds(tmp_path: Path) -> None:
    replay, out = Replay(run_of(tmp_path)), io.StringIO()
    with replay.progress(PlainLines(out)) as progress:
        replay.begin(progress)
        for _ in range(ROUNDS):
            replay.round(progress)
    stage, *lines = out.getvalue().splitlines()
    assert stage == "measuring"
    assert [line.split(" · ")[0] for line in lines] == ["round 4", "round 8", "round 12"]
    assert "TLS 1.3 (rsa-2048): app: connect and first query +0." in lines[0]
    assert "\x1b" not in out.getvalue()


def test_json_progress_has_a_line_for_each_event(tmp_path: Path) -> None:
    replay, out = Replay(run_of(tmp_path)), io.StringIO()
    with replay.progress(JsonLines(out)) as progress:
        replay.begin(progress)
        replay.round(progress)
        progress.warn("careful")
    events = [EVENT.validate_json(line) for line in out.getvalue().splitlines()]
    assert [event.event for event in events] == ["started", "stage", "round", "warning"]
    assert isinstance(events[1], StageEvent)


def test_progress_in_a_pipe_is_plain_lines_even_with_force_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert isinstance(open_display(json_lines=False), PlainLines)


@pytest.mark.parametrize(
    ("low", "value", "high", "shown"),
    [
        (0.4, 0.5, 0.6, "│   ─●─    "),
        (4.6, 4.8, 5.0, "│        ─●"),
        (-0.5, 0.1, 0.7, "  ───┼●──  "),
        (-0.9, -0.8, -0.7, " ─●─      │"),
        (0.0, 0.0, 0.0, "     │     "),
    ],
)
def test_bar_draws_the_interval_of_an_effect_and_the_position_of_zero(
    low: float, value: float, high: float, shown: str
) -> None:
    assert bar(Estimate(value=value, low=low, high=high, rounds=9)) == shown
