"""Colours of the HTML report and its pictures, each with a light and a dark value.

Pictures use CSS variables of the same names, so that one drawing fits the light and the dark page. People with the
common kinds of colour blindness can distinguish the hues (after Okabe and Ito, 2008). Colour is never the only sign of
anything.
"""

from __future__ import annotations

from costof.results.index import Index
from costof.results.models import Arm
from costof.statistics.estimate import Verdict

COLOURS: dict[str, tuple[str, str]] = {
    "paper": ("#fdfcfa", "#15181c"),
    "panel": ("#f4f2ee", "#1d2126"),
    "ink": ("#1f2730", "#e6e4df"),
    "soft": ("#5c6670", "#a3a9b0"),
    "line": ("#d9d6cf", "#353b42"),
    "control": ("#7a8591", "#98a3af"),
    "arm1": ("#1f6f9c", "#63b1dd"),
    "arm2": ("#c2661f", "#e79a57"),
    "arm3": ("#2e8a6d", "#5cc0a0"),
    "arm4": ("#8a5a9e", "#c193d6"),
    "arm5": ("#9a7d1c", "#d3b653"),
    "arm6": ("#b0476b", "#e58aa8"),
    "tcp": ("#b9c3cc", "#566069"),
    "greeting": ("#a8ba93", "#687a55"),
    "tls": ("#c96a22", "#e08f4a"),
    "hello": ("#8fb8c9", "#4d7f95"),
    "auth": ("#4d8aa6", "#7fb6cf"),
    "first": ("#c9bd92", "#8d8358"),
    "role1": ("#2f7fae", "#5aa6d2"),
    "role2": ("#d08b3c", "#d99a52"),
    "role3": ("#58a188", "#6fb99f"),
    "role4": ("#a58fb8", "#b3a0c6"),
    "role5": ("#8c8f94", "#84888e"),
    "costs": ("#9c4f10", "#f0aa6b"),
    "saves": ("#175f8a", "#7cc0ea"),
    "none": ("#2a6b52", "#7fcfae"),
    "unresolved": ("#6b4a7d", "#cfa9e3"),
    "error": ("#a02c2c", "#f19a94"),
}
VERDICT_COLOURS = {
    Verdict.COSTS: "costs",
    Verdict.SAVES: "saves",
    Verdict.NO_DIFFERENCE: "none",
    Verdict.NO_COST: "none",
    Verdict.UNRESOLVED: "unresolved",
}
ARMS = ("arm1", "arm2", "arm3", "arm4", "arm5", "arm6")
ROLES = ("role1", "role2", "role3", "role4", "role5")


def paint(name: str) -> str:
    """Return a CSS colour: a variable, with the light value as fallback for pictures copied out of the page."""
    return f"var(--{name}, {COLOURS[name][0].upper()})"


def arm_colour(number: int) -> str:
    return ARMS[number % len(ARMS)]


def colour_of(index: Index, arm: Arm) -> str:
    """Return the name of the arm's colour. A protection has the same colour at every distance."""
    return "control" if arm.control else arm_colour(list(index.protections).index(arm.protection))


def role_colour(index: int) -> str:
    return ROLES[index % len(ROLES)]


def css_variables(*, dark: bool) -> str:
    """Return the CSS declarations of all colours for a light or dark page, such as '--ink: #1f2730; …'."""
    return " ".join(f"--{name}: {pair[dark]};" for name, pair in COLOURS.items())
