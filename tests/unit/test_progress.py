"""The line that a person sees while a run goes on."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from costof.cli.run import Bar
from costof.study.library import load_study
from costof.study.plan import Options, resolve


def seconds_left(options: Options, done: int, elapsed_seconds: float) -> float:
    plan = resolve(load_study("mongodb-tls"), options)
    return Bar(plan, Console(file=io.StringIO())).seconds_left(done, elapsed_seconds, None)


def test_the_time_left_is_what_ends_the_run_first() -> None:
    most = load_study("mongodb-tls").profiles["quick"].rounds[1]
    assert seconds_left(Options(profile="quick", budget="50s"), 2, 10.0) == pytest.approx(40)
    assert seconds_left(Options(profile="quick", budget="10h"), 2, 10.0) == pytest.approx((most - 2) * 5)
    assert seconds_left(Options(profile="quick", rounds="5"), 2, 20.0) == pytest.approx(30)


@pytest.mark.parametrize("options", [Options(budget="50s", precision="2%"), Options(rounds="5")])
def test_the_line_tells_what_the_run_goes_for(options: Options) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=140)
    with Bar(resolve(load_study("mongodb-tls"), options), console) as bar:
        bar.stage("measuring")
        bar.round(2, 10.0, 0.034)
        bar._progress.refresh()
    told = out.getvalue()
    assert "known to ±3.4%" in told
    if options.rounds:
        assert "round 2 of 5 · about 15 s left" in told
        assert "asked" not in told
    else:
        assert "round 2 · at most 40 s left" in told
        assert "asked ±2.0%" in told
