"""The summary of the report in two forms to share: a few lines of Markdown, and a card (a picture in SVG)."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape as escape_xml

from costof import format as fmt
from costof.report.blocks import Handout
from costof.report.canvas import BOLD, text_width
from costof.report.key_figures import MOST_TILES, KeyFigure, first_of_each_arm
from costof.report.markdown import escape
from costof.report.palette import COLOURS, VERDICT_COLOURS
from costof.statistics.estimate import Estimate

HANDOUT_FILE = "costof-{run}"
MARGIN = 1.08
"""The scale of a bar extends to the end of the interval times this factor, so that a small gap remains beyond it."""


def interval_scale(difference: Estimate) -> dict[str, float]:
    """Return the positions of zero, the interval's ends and the value, on a scale from 0 to 100 that shows them all."""
    low, high = min(0.0, MARGIN * difference.low), max(0.0, MARGIN * difference.high)
    span = high - low or 1.0

    def place(value: float) -> float:
        return round(100 * (value - low) / span, 2)

    return {
        "zero": place(0.0),
        "low": place(difference.low),
        "high": place(difference.high),
        "value": place(difference.value),
    }


def markdown(handout: Handout) -> str:
    """Return the summary of the report as GitHub-flavoured Markdown, for a ticket or a pull request."""
    summary = handout.summary
    texts = [f"**{escape(line)}**" for line in summary.lines]
    texts += [escape(summary.limits)] if summary.limits else []
    texts += [f"**{label}:** {escape(text)}" for label, text in summary.beside_verdict]
    texts += ["\n".join(_rows(summary.figures))] if summary.figures else []
    texts += [" · ".join(escape(check.words) for check in handout.checks)] if handout.checks else []
    texts += [f"{label}: {escape(text)}" for label, text in summary.reasons]
    texts.append(f"{escape(handout.question)} {escape(handout.extent)}, {handout.started}. {escape(versions(handout))}")
    texts.append(f"Repeat: `{handout.command}`")
    return "\n\n".join(texts).replace(fmt.NBSP, " ") + "\n"


def versions(handout: Handout) -> str:
    """Return the versions as text, such as 'costof 0.1.0, mongod 6.0.5'."""
    named = (text if text[0].isalpha() else f"{name} {text}" for name, text in handout.versions.items())
    return ", ".join(dict.fromkeys(named))


def _rows(figures: list[KeyFigure]) -> Iterator[str]:
    several = len({figure.arm for figure in figures}) > 1
    yield "| added | without | with | difference | relative | 95 % interval | |"
    yield "| --- | ---: | ---: | ---: | ---: | --- | --- |"
    for figure in figures:
        label = f"{figure.arm_label}: {figure.whole_label}" if several else figure.whole_label
        cells = [
            label,
            figure.one_side(figure.without),
            figure.one_side(figure.value),
            figure.added,
            figure.relative or fmt.NONE,
            figure.interval,
            figure.verdict_word,
        ]
        yield "| " + " | ".join(map(escape, cells)) + " |"


XML_NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'
WIDTH, HEIGHT = 1200, 630
"""The usual size in pixels of the preview picture that social media show for a link."""
EDGE, GAP = 56, 20
VERDICT_SIZES = (38, 34, 30, 26, 22)
MOST_LINES = 4
TILE_TOP, TILE_HEIGHT = 270, 196
SANS = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
MONO = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def card(handout: Handout) -> str:
    """Return the summary of the report as an SVG picture.

    It has the verdict, the first figures, how sure they are, what reduces the cost, the versions and the command.
    """
    figures = first_of_each_arm(handout.summary.figures, MOST_TILES)
    several = len({figure.arm for figure in handout.summary.figures}) > 1
    body = [
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{_colour("paper")}"/>',
        f'<rect width="{WIDTH}" height="8" fill="{_colour("arm1")}"/>',
        _text(EDGE, 54, f"costof · {handout.extent} · {handout.started}", 18, "soft"),
        *_verdict(handout.summary.verdict),
    ]
    room = (WIDTH - 2 * EDGE - GAP * (len(figures) - 1)) / max(1, len(figures))
    for number, figure in enumerate(figures):
        body += _tile(figure, EDGE + number * (room + GAP), room, several=several)
    body += _foot(handout)
    title = escape_xml(handout.summary.verdict)
    return (
        f'<svg{XML_NAMESPACE} width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'role="img" aria-label="{title}" font-family="{SANS}">\n' + "\n".join(body) + "\n</svg>\n"
    )


def _colour(name: str) -> str:
    return COLOURS[name][0]


def _text(x: float, y: float, text: str, size: float, colour: str = "ink", style: str = "") -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size:g}" fill="{_colour(colour)}"{style}>{escape_xml(text)}</text>'
    )


def _verdict(text: str) -> Iterator[str]:
    for size in VERDICT_SIZES:
        lines = wrapped(text, BOLD * size, WIDTH - 2 * EDGE)
        if len(lines) <= MOST_LINES and (len(lines) + 0.2) * size * 1.25 <= TILE_TOP - 80:
            break
    for number, line in enumerate(_fitting(lines, MOST_LINES + 1)):
        yield _text(EDGE, 76 + size + number * size * 1.25, line, size, style=' font-weight="650"')


def wrapped(text: str, size: float, width: float) -> list[str]:
    """Return the lines of a text that is wrapped to this width. Size (of the font) and width are in pixels."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, size) > width and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _fitting(lines: list[str], most: int) -> list[str]:
    """Return at most this many lines. If lines are left out, the last line ends with '…' instead of its last word."""
    return lines if len(lines) <= most else [*lines[: most - 1], f"{lines[most - 1].rpartition(' ')[0]} …"]


def _tile(figure: KeyFigure, left: float, width: float, *, several: bool) -> Iterator[str]:
    kind = VERDICT_COLOURS[figure.verdict]
    inner, top = left + 20, TILE_TOP
    for name, across, corner in (("panel", width, 8), (kind, 6, 3)):
        yield (
            f'<rect x="{left:.0f}" y="{top}" width="{across:.0f}" height="{TILE_HEIGHT}" rx="{corner}" '
            f'fill="{_colour(name)}"/>'
        )
    label = f"{figure.arm_label}: {figure.whole_label}" if several else figure.whole_label
    for number, line in enumerate(_fitting(wrapped(label, 15, width - 36), 3)):
        yield _text(inner, top + 27 + 18 * number, line, 15, "soft")
    yield _text(inner, top + 100, figure.added.replace(fmt.NBSP, " "), 34, style=' font-weight="650"')
    places, room, y = interval_scale(figure.difference), width - 40, top + 122
    x = {name: inner + room * each / 100 for name, each in places.items()}
    yield f'<path d="M{inner:.1f} {y}h{room:.1f}" stroke="{_colour("line")}" stroke-width="2"/>'
    yield f'<path d="M{x["zero"]:.1f} {y - 8}v16" stroke="{_colour("soft")}" stroke-width="2"/>'
    yield f'<path d="M{x["low"]:.1f} {y}H{x["high"]:.1f}" stroke="{_colour(kind)}" stroke-width="7"/>'
    yield f'<circle cx="{x["value"]:.1f}" cy="{y}" r="6" fill="{_colour(kind)}"/>'
    yield _text(inner, top + 155, f"95 %: {figure.interval}", 15, "soft")
    yield _text(
        inner,
        top + 178,
        " · ".join(filter(None, [figure.verdict_word, figure.relative])),
        17,
        kind,
        ' font-weight="650"',
    )


def _foot(handout: Handout) -> Iterator[str]:
    y, room = TILE_TOP + TILE_HEIGHT + 34, WIDTH - 2 * EDGE - 20
    for label, text in handout.summary.beside_verdict:
        for line in _fitting(wrapped(f"{label}: {text}".replace(fmt.NBSP, " "), 17, room), 2):
            yield _text(EDGE, y, line, 17)
            y += 22
    yield _text(EDGE, HEIGHT - 44, _fitting(wrapped(versions(handout), 15, room), 1)[0], 15, "soft")
    # The letters of a monospaced font are about 0.6 times as wide as the font is high.
    size = min(15.0, (WIDTH - 2 * EDGE) / max(1, len(handout.command)) / 0.605)
    yield _text(EDGE, HEIGHT - 18, handout.command, max(8.0, round(size, 1)), style=f' font-family="{MONO}"')
