"""The terminal report, at the widths people have."""

from __future__ import annotations

import io

import pytest
from report_sample import Golden, empty_result, make_arm, make_errors, make_result
from rich.cells import cell_len
from rich.console import Console

from costof.analysis.models import Sentence
from costof.document import format as fmt
from costof.report import answer, render_terminal
from costof.report.result import Result
from costof.statistics.estimate import Verdict


def printed(result: Result, width: int = 100, *, colour: bool = False, encoding: str = "utf-8") -> str:
    """What a console of this width shows; without `colour` it is a pipe."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
    console = Console(file=stream, width=width, force_terminal=colour, color_system="standard" if colour else None)
    render_terminal(result, console)
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("width", [80, 100, 140])
def test_looks_as_agreed(width: int, golden: Golden) -> None:
    golden(f"terminal-{width}.txt", printed(make_result(errors=make_errors()), width))


def test_many_arms_look_as_agreed(golden: Golden) -> None:
    golden("terminal-many-100.txt", printed(make_result(arms=("tls", "tls-4096")), 100))


@pytest.mark.parametrize("width", [50, 80, 100, 140])
@pytest.mark.parametrize("arms", [("tls",), ("tls", "tls-4096")])
def test_no_line_is_wider_than_the_console(width: int, arms: tuple[str, ...]) -> None:
    lines = printed(make_result(arms=arms), width).splitlines()
    assert max(map(cell_len, lines)) <= width


@pytest.mark.parametrize("width", [76, 80, 100, 140])
def test_every_interval_is_whole(width: int) -> None:
    result = make_result()
    text = printed(result, width)
    for figures in ("[1.84, 1.95]", "[36.1, 38.9]", "[−0.0013, 0.0041]", "[−0.2, 0.9]"):
        assert figures in text
    assert "…" not in text.replace("mongodb://…", "")


def test_a_pipe_gets_neither_colours_nor_trailing_blanks() -> None:
    text = printed(make_result())
    assert "\x1b" not in text
    assert not [line for line in text.splitlines() if line != line.rstrip()]
    assert "\x1b[" in printed(make_result(), colour=True)


def test_a_console_without_unicode_gets_ascii() -> None:
    text = printed(make_result(), 80, encoding="latin-1")
    assert text.isascii()
    assert "[-0.0013, 0.0041]" in text
    assert "3.53x" in text


def test_answer_comes_before_the_table() -> None:
    text = " ".join(printed(make_result()).split())
    assert text.index("On the wire, TLS 1.3") < text.index("published")


def test_the_twin_is_noise_and_never_a_row() -> None:
    text = printed(make_result(), 140)
    assert "plain-twin" not in text
    assert "Noise floor" in text
    assert "Noise floor" not in printed(make_result(noise_floor=[]), 140)


def test_partial_run_says_so_before_the_answer() -> None:
    text = printed(make_result(partial="interrupted (Ctrl-C) in round 7"))
    assert text.index("PARTIAL RUN: interrupted (Ctrl-C) in round 7") < text.index("adds")


def test_no_rounds() -> None:
    text = printed(empty_result())
    assert "No round was completed" in text
    assert "This run has no answer" in text


def test_rounds_without_effects() -> None:
    assert "No arm could be compared" in printed(make_result(effects=[]))


def test_arm_in_error_is_named_with_its_reason() -> None:
    broken = make_arm("tls-4096", error="tls_certificate_expired: valid until 2024-01-01")
    result = make_result()
    text = printed(result.model_copy(update={"arms": [*result.arms, broken]}), 140)
    assert "TLS 1.3, rsa-4096 has no figures: tls_certificate_expired: valid until 2024-01-01" in text
    in_part = make_arm("tls", error="refused by the wire view")
    text = printed(result.model_copy(update={"arms": [*result.arms[:2], in_part]}), 140)
    assert "was measured in part only: refused by the wire view" in text


def test_unresolved_names_the_time_it_needs() -> None:
    assert "unresolved; about 3 min more" in printed(make_result(), 140)


def test_where_only_days_of_rounds_would_do_less_noise_is_advised() -> None:
    result = make_result()
    far = {"verdict": Verdict.UNRESOLVED, "needed_seconds": 36 * 3600.0}
    noisy = result.model_copy(
        update={"profile": "quick", "effects": [each.model_copy(update=far) for each in result.effects]}
    )
    assert "unresolved; too noisy" in printed(noisy, 140)
    assert " h more" not in printed(noisy, 140)
    (advice,) = (each.text for each in answer(noisy, noisy.sections) if each.kind == "next")
    assert "a machine with nothing else running, longer slices (--profile default), or a larger margin" in advice
    headline = {metric.name for metric in noisy.metrics if metric.headline}
    worst = max(e.ratio.high for e in noisy.effects if e.ratio is not None and e.metric in headline)
    assert f"a cost of more than {100 * (worst - 1):.1f}{fmt.NBSP}% is unlikely" in advice
    near = noisy.model_copy(update={"effects": [e.model_copy(update={"needed_seconds": 600.0}) for e in noisy.effects]})
    (advice,) = (each.text for each in answer(near, near.sections) if each.kind == "next")
    assert advice.endswith(f"would take about 10{fmt.NBSP}min more of measuring (--budget).")


def test_without_published_figures() -> None:
    assert "ublished" not in printed(make_result(published=None))


def test_errors_warnings_and_cautions() -> None:
    cautions = [Sentence(kind="caution", text="The load generator was the limit.")]
    text = printed(make_result(errors=make_errors(), warnings=["Steal time was 4 %."], answer=cautions), 140)
    assert "3 × timeout in connect on tls; the first: no answer within 10,000 ms in auth" in text
    assert "Steal time was 4 %." in text
    assert "Caution: The load generator was the limit." in text


def test_markup_in_words_is_printed_as_it_stands() -> None:
    assert "[bold red]not[/]" in printed(make_result(warnings=["a [bold red]not[/] b"]), 140)
