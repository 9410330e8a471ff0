"""The progress that a run shows while it measures: a table on a real terminal, or lines of JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from costof.run.events import EVENT, AnswerEvent, ErrorEvent, RoundEvent, StartedEvent
from tests.fake_run import Truth, fake_run
from tests.support.command import costof
from tests.support.small_plans import plan_of
from tests.support.terminal import COLOUR, Terminal, terminal

from .conftest import COSTOF

TITLE = "What does TLS cost a MongoDB client?"
#: The arguments of a run that is far longer than the test.
ENDLESS = ("versus", "--rounds", "1000", "--seconds", "0.05", "sleep 0.001", "sleep 0.002")


class Replayed:
    """A replayed run in a terminal, which shows a further round when the test says so."""

    def __init__(self, window: Terminal, pipe: int) -> None:
        self.window = window
        self._pipe = pipe
        self._rounds = 0

    def rounds(self, count: int) -> str:
        self.say("round", count)
        self._rounds += count
        return self.window.wait_for(f"round {self._rounds} ")

    def say(self, word: str, times: int = 1) -> None:
        os.write(self._pipe, f"{word}\n".encode() * times)

    def end(self) -> None:
        os.close(self._pipe)


@contextmanager
def replayed(folder: Path, width: int = 110, height: int = 30, **environment: str) -> Iterator[Replayed]:
    plan, pipe = plan_of("mongodb-tls"), folder / "pipe"
    fake_run(folder / "run", plan, Truth({(name, "tls"): 1.5 for name in plan.study.workloads}), rounds=12)
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "tests.support.replay", str(folder / "run"), str(pipe)]
    root = str(Path(__file__).parents[2])
    with terminal(command, Path(root), width, height, environment) as window:
        yield Replayed(window, os.open(pipe, os.O_WRONLY))


def times_on(screen: str, text: str) -> int:
    return sum(text in line for line in screen.splitlines())


def test_live_table_is_redrawn_in_place_and_followed_by_the_short_answer(tmp_path: Path) -> None:
    with replayed(tmp_path) as run:
        screen = run.rounds(1)
        assert "no figures before the second round" in screen
        for _ in range(6):
            screen = run.rounds(1)
        assert (times_on(screen, TITLE), times_on(screen, "95 % interval")) == (1, 1)
        assert times_on(screen, ": connect and first") == 2, "on the wire, and in the application"
        assert "at most" in screen
        assert "verdict in about" in screen
        assert COLOUR.search(run.window.screen("-e")) is None, "nothing to warn about"
        assert run.window.shows_cursor
        run.end()
        screen = run.window.wait_for("ended with 0")
        assert screen.splitlines() == ["the answer", "ended with 0"]
        assert run.window.shows_cursor


def test_resized_terminal_shows_one_whole_table(tmp_path: Path) -> None:
    with replayed(tmp_path) as run:
        run.rounds(6)
        for width, height in ((50, 30), (110, 30), (60, 12), (90, 40)):
            run.window.resize(width, height)
            screen = run.rounds(1)
            assert [times_on(screen, text) for text in (TITLE[:40], "95 % interval", "Ctrl-C")] == [1, 1, 1], screen
            assert max(map(len, screen.splitlines())) < width
        run.end()
        assert run.window.wait_for("ended with 0").splitlines() == ["the answer", "ended with 0"]


def test_ctrl_c_prints_at_once_how_many_rounds_are_kept(tmp_path: Path) -> None:
    with replayed(tmp_path) as run:
        run.rounds(7)
        run.window.press("C-c")
        screen = run.window.wait_for("ended with 0")
        first, *_ = screen.splitlines()
        assert first.startswith("costof: interrupted; 7 complete rounds are kept")
        assert screen.splitlines()[-2:] == ["the partial answer", "ended with 0"]
        assert times_on(screen, TITLE) == 0
        assert run.window.shows_cursor


def test_cursor_is_visible_again_after_a_run_ended_with_an_error(tmp_path: Path) -> None:
    with replayed(tmp_path) as run:
        run.rounds(3)
        run.say("fail")
        screen = run.window.wait_for("ended with 0")
        assert screen.splitlines() == ["costof: nothing was measured: the test ends here", "ended with 0"]
        assert run.window.shows_cursor


def test_progress_on_a_dumb_terminal_is_printed_as_plain_lines(tmp_path: Path) -> None:
    with replayed(tmp_path, TERM="dumb") as run:
        run.say("round", 8)
        run.end()
        screen = run.window.wait_for("ended with 0")
        assert [line[:7] for line in screen.splitlines() if line.startswith("round")] == ["round 4", "round 8"]
        assert "\x1b" not in run.window.screen("-e")


@pytest.mark.parametrize(("variable", "is_coloured"), [("COLUMNS", True), ("NO_COLOR", False)])
def test_live_table_has_colours_unless_no_color_is_set(tmp_path: Path, variable: str, is_coloured: bool) -> None:
    with replayed(tmp_path, **{variable: "100"}) as run:
        run.say("mismatch")
        screen = run.rounds(2)
        assert "in round 1, because the client did not use TLS" in " ".join(screen.split())
        assert (COLOUR.search(run.window.screen("-e")) is not None) == is_coloured


def test_run_interrupted_at_a_terminal_says_that_complete_rounds_are_kept(tmp_path: Path) -> None:
    with terminal([*COSTOF, *ENDLESS, "--out", "run"], tmp_path) as window:
        window.wait_for("95 % interval")
        window.press("C-c")
        window.wait_for("complete rounds are kept")
        screen = window.wait_for("ended with 3")
        assert "Ctrl-C" not in screen
        assert window.shows_cursor


def test_last_json_line_is_the_answer_event_or_the_error_event(tmp_path: Path) -> None:
    arguments = ["versus", "--rounds", "2", "--seconds", "0.01", "--limit", "time", "+10%", "true", "sleep 0.001"]
    ended = costof(*arguments, "--json-lines", "--out", "run", cwd=tmp_path, FORCE_COLOR="1")
    events = [EVENT.validate_json(line) for line in ended.out.splitlines()]
    assert (type(events[0]), type(events[-1])) == (StartedEvent, AnswerEvent)
    last = [event for event in events if isinstance(event, RoundEvent)][-1]
    assert [(each.metric, each.arm, each.difference.rounds) for each in last.effects] == [("run.time", "b", 2)]
    answer = events[-1]
    assert isinstance(answer, AnswerEvent)
    assert (answer.exit_status, answer.limits[0].state) == (ended.status, "undecided")
    assert (tmp_path / answer.report).is_file()
    assert "\x1b" not in ended.err
    failed = costof("versus", "--rounds", "2", "--json-lines", "true", "no-such-program", "--out", "no", cwd=tmp_path)
    error = EVENT.validate_json(failed.out.splitlines()[-1])
    assert isinstance(error, ErrorEvent)
    assert (error.exit_status, [f"costof: {error.text}"]) == (failed.status, failed.error_lines)
    both = costof("versus", "--json", "--json-lines", "true", "true", cwd=tmp_path)
    assert (both.status, "remove one" in both.err) == (2, True)
