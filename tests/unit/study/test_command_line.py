"""Tests of the command line with which a run can be repeated."""

from __future__ import annotations

import shlex
from itertools import pairwise

import pytest

from costof.study.command_line import command_line
from costof.study.library import load_study
from costof.study.load import RequestedLoad
from costof.study.plan import Options, resolve
from tests.support.small_plans import plan_of


@pytest.mark.parametrize(
    ("study", "settings"),
    [
        ("mongodb-tls", []),
        ("mongodb-tls", ["key=ecdsa-p256,rsa-4096"]),
        ("mysql-transport", ["transport=plain,tls", "distance=2"]),
        ("postgres-pooling", []),
        ("http-tls-termination", ["resumption=on"]),
    ],
)
def test_printed_command_line_selects_the_same_arms_as_the_run(study: str, settings: list[str]) -> None:
    plan = plan_of(study, "quick", *settings, seed=7)
    words = shlex.split(command_line(plan, 12))
    assert words[:5] == ["costof", "run", study, "--profile", "quick"]
    assert words[-4:] == ["--rounds", "12", "--seed", "7"]
    repeated = [after for word, after in pairwise(words) if word == "--set"]
    again = resolve(load_study(study), Options("quick", repeated, rounds="12", seed=7))
    assert (again.arms, again.seed, again.fewest_rounds, again.most_rounds) == (plan.arms, 7, 12, 12)
    assert bool(repeated) == bool(settings), "only what differs from the profile"


def test_printed_command_line_has_the_options_of_load_and_restarts() -> None:
    text = command_line(plan_of("redis-tls", load=RequestedLoad("300/s", "20"), restarts="5"), 4)
    assert "--load 300/s --queries-per-connection 20 --restarts 5 --rounds 4" in text
    pool = command_line(plan_of("redis-tls", load=RequestedLoad(pool="50", think_time="10ms")), 4)
    assert "--pool 50 --think-time 10ms" in pool
    several = command_line(plan_of("redis-tls", load=RequestedLoad("100/s..300/s", pool="50")), 4)
    assert "--pool 50 --load 100/s,130/s,170/s,230/s,300/s --rounds 4" in several
    limits = [("p99 of a query", "5ms")]
    sweep = command_line(plan_of("redis-tls", load=RequestedLoad("100/s..300/s", pool="50"), limits=limits), 4)
    assert "--pool 50 --load 100/s..300/s --limit 'p99 of a query' 5ms --rounds 4" in sweep
