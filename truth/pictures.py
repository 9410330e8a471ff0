"""The diagrams of the campaign's page, as SVG files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from truth.design import SERVICES
from truth.figures import PLACES, Case, Proportion, cases
from truth.goals import COVERAGE
from truth.rows import EffectRow

COLOURS = {False: "#1f6fb2", True: "#d1662b"}
# Keep text as text in the SVG, and write the same file for the same data.
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "truth", "font.size": 9.0, "axes.spines.top": False})
mpl.rcParams.update({"axes.spines.right": False, "legend.frameon": False})


def draw(effects: Sequence[EffectRow], folder: Path) -> None:
    by_truth = cases(effects)
    _save(_coverage(by_truth), folder / "coverage.svg")
    _save(_power(effects), folder / "power.svg")
    _save(_errors(by_truth), folder / "errors.svg")


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, format="svg", bbox_inches="tight", metadata={"Date": None})


def _coverage(by_truth: Sequence[Case]) -> Figure:
    figure = Figure(figsize=(7.5, 3.6))
    axes = figure.subplots()
    axes.axvspan(COVERAGE.low, COVERAGE.high, color="#dddddd", zorder=0, label="goal")
    names = _labelled(axes, by_truth)
    for disturbed, colour in COLOURS.items():
        chosen = [case for case in by_truth if case.disturbed is disturbed]
        heights = [names.index(case.truth) + (0.15 if disturbed else -0.15) for case in chosen]
        _dots(axes, [case.covered for case in chosen], heights, colour, PLACES[disturbed])
    axes.set_xlabel("share of 95 % intervals that contain the truth, with its own 95 % interval")
    _legend(axes)
    return figure


def _errors(by_truth: Sequence[Case]) -> Figure:
    figure = Figure(figsize=(7.5, 3.6))
    axes = figure.subplots()
    names = _labelled(axes, by_truth)
    for disturbed, colour in COLOURS.items():
        chosen = [case for case in by_truth if case.disturbed is disturbed]
        errors = [(row.estimate - row.truth) / row.control for case in chosen for row in case.rows]
        offset = 0.15 if disturbed else -0.15
        heights = [names.index(case.truth) + offset for case in chosen for _ in case.rows]
        axes.plot(errors, heights, "|", color=colour, label=PLACES[disturbed])
    axes.axvline(0, color="#888888", linewidth=0.8, zorder=0)
    axes.set_xscale("symlog", linthresh=0.01, linscale=1.0)
    axes.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0, decimals=0))
    axes.set_xlabel("estimate minus truth, in percent of the control (linear within 1 %)")
    _legend(axes)
    return figure


def _power(effects: Sequence[EffectRow]) -> Figure:
    """Draw, for each service, how often a cost that all queries pay is detected."""
    figure = Figure(figsize=(7.5, 2.8))
    effects = [row for row in effects if row.payers == "all" and not row.carry_over]
    shares = sorted({row.added_share for row in effects})
    for axes, service in zip(figure.subplots(1, len(SERVICES), sharey=True), SERVICES, strict=True):
        chosen = cases(row for row in effects if row.service == service)
        for disturbed, colour in COLOURS.items():
            curve = [case for case in chosen if case.disturbed is disturbed]
            places = [shares.index(case.added_share) + (0.1 if disturbed else -0.1) for case in curve]
            detected = [case.judged_costs for case in curve]
            values = [p.value for p in detected]
            label = PLACES[disturbed]
            axes.errorbar(places, values, _reach(detected), color=colour, marker="o", markersize=3, label=label)
        axes.set_xticks(range(len(shares)), [f"{100 * share:g} %" for share in shares])
        axes.set_title(service, fontsize=9)
        axes.set_xlabel("true cost")
    figure.axes[0].set_ylabel('share of runs with the verdict "costs"')
    _legend(figure.axes[-1])
    return figure


def _dots(axes: Axes, proportions: Sequence[Proportion], heights: Sequence[float], colour: str, label: str) -> None:
    values = [p.value for p in proportions]
    axes.errorbar(values, heights, xerr=_reach(proportions), fmt="o", markersize=4, color=colour, label=label)


def _reach(proportions: Sequence[Proportion]) -> list[list[float]]:
    """Return how far each proportion's interval extends below the proportion, and above it."""
    return [[p.value - p.interval[0] for p in proportions], [p.interval[1] - p.value for p in proportions]]


def _labelled(axes: Axes, by_truth: Sequence[Case]) -> list[str]:
    """Label the vertical axis with the true costs from top to bottom, and return their names."""
    names = list(dict.fromkeys(case.truth for case in by_truth))
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    return names


def _legend(axes: Axes) -> None:
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
