"""The truth campaign's page, and what it says of whole runs of the command."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from costof.statistics.estimate import Verdict
from tests.unit.test_truth import effect, peer, tail
from truth import page
from truth.campaign import about
from truth.design import FULL, IDENTICAL, NOTHING, QUICK, Sizes, Trial, trials
from truth.figures import Proportion
from truth.rows import PairRow, QuickRow, Rows
from truth.whole_figures import peer_said_to_differ, quick_profiles, said_to_differ


def quick(number: int, arm: str, ratio: float, half: float, verdict: Verdict, seconds: float = 40.0) -> QuickRow:
    """An effect whose interval is so wide on the log scale."""
    return QuickRow(
        **dict(about(Trial("quick", "redis-tls", NOTHING, False, number))),
        metric="wire.connect",
        arm=arm,
        ratio=ratio,
        ratio_low=ratio * math.exp(-half),
        ratio_high=ratio * math.exp(half),
        verdict=verdict.value,
        rounds=9,
        seconds=seconds,
    )


def pair(number: int, verdict: Verdict, peer_ratio: float, peer_error: float) -> PairRow:
    trial = Trial("pair", IDENTICAL, NOTHING, False, number)
    both = {"peer_ratio": peer_ratio, "peer_error": peer_error, "seconds": 3.0}
    return PairRow(**dict(about(trial)), ratio=1.0, ratio_low=0.9, ratio_high=1.1, verdict=verdict.value, **both)


def test_a_quick_profile_is_to_resolve_what_is_large_in_the_median_of_its_runs() -> None:
    costs, unresolved = Verdict.COSTS, Verdict.UNRESOLVED
    rows = [quick(number, "large", 2.0, math.log(2) / 4, costs if number else unresolved) for number in range(10)]
    rows += [quick(number, "saves", 0.8, 0.1, costs if number > 1 else unresolved, 50.0) for number in range(10)]
    rows += [quick(number, "small", 1.05, 0.1, unresolved) for number in range(10)]
    (profile,) = quick_profiles(rows)
    assert (profile.study, len(profile.seconds)) == ("redis-tls", 10)
    large, saves = profile.large
    assert (large.arm, large.resolved, large.clearance) == ("large", Proportion(9, 10), pytest.approx(4))
    assert (saves.arm, saves.resolved) == ("saves", Proportion(8, 10))
    assert profile.resolved == Proportion(1, 2)


def test_of_identical_commands_each_tool_is_asked_what_it_says_itself() -> None:
    pairs = [
        pair(0, Verdict.COSTS, 1.02, 0.05),
        pair(1, Verdict.NO_DIFFERENCE, 1.06, 0.05),
        pair(2, Verdict.UNRESOLVED, 0.9, 0.05),
    ]
    assert (said_to_differ(pairs), peer_said_to_differ(pairs)) == (Proportion(1, 3), Proportion(2, 3))


def campaign(folder: Path) -> Rows:
    """A quick one, but for its verdicts."""
    rows = Rows(folder / "rows")
    for trial in trials(QUICK):
        match trial.kind:
            case "peer":
                rows.add([peer(trial, 0.0)])
            case "tail":
                rows.add([tail(trial, 101.0), tail(trial, 101.0).model_copy(update={"percentile": 50.0})])
            case "effect":
                rows.add([effect(trial), effect(trial, "twin")])
    return rows


def test_the_page_of_a_quick_campaign_has_every_table_and_picture(tmp_path: Path) -> None:
    rows = campaign(tmp_path)
    for trial in trials(QUICK):
        if trial.kind == "verdict":
            rows.add([effect(trial, seconds_to_verdict=1.0, seconds_earlier=2.0), effect(trial, "twin")])
        if trial.kind == "pair":
            rows.add([pair(trial.number, Verdict.NO_DIFFERENCE, 1.06, 0.05)])
    rows.add([quick(number, "tls", 2.0, 0.1, Verdict.COSTS) for number in range(2)])
    page.write(rows, tmp_path, QUICK)
    text = (tmp_path / page.PAGE).read_text()
    assert "| `redis-tls` | 2 | 40 s, at most 40 | 1 of 1 | 6.9 | – |" in text
    assert "in 5 pairs; then hyperfine of the same pair" in text
    assert all((tmp_path / link).is_file() for link in page_links(text))
    assert {path.name for path in (tmp_path / page.FOLDER).iterdir()} == {
        *(f"{name}.parquet" for name in ("effects", "peers", "tails", "quick", "pairs")),
        *(f"{name}.svg" for name in ("coverage", "power", "errors", "seconds")),
    }


@pytest.mark.parametrize(("sizes", "said"), [(QUICK, "This is a quick campaign"), (FULL, "has carried out ")])
def test_the_page_says_how_much_was_carried_out(sizes: Sizes, said: str, tmp_path: Path) -> None:
    rows = campaign(tmp_path)
    rows.add([quick(number, "tls", 2.0, 0.1, Verdict.COSTS) for number in range(2)])
    page.write(rows, tmp_path, sizes)
    head = (tmp_path / page.PAGE).read_text()[:500]
    assert [words for words in ("This is a quick campaign", "has carried out ") if words in head] == [said]


def page_links(text: str) -> list[str]:
    """Pictures of a page."""
    return [part.partition(")")[0] for part in text.split("](")[1:] if part.startswith(page.FOLDER + "/")]
