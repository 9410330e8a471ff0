"""Figures from the literature, as data in a study's file; shown beside a run's own and never mixed into them."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from costof.model import Finite, Model


class PublishedFigure(Model):
    """A figure from the literature, shown beside ours and never mixed into it."""

    metric: str
    levels: dict[str, str] = Field(description="The arms it belongs to: those that have all of these levels.")
    series: str = Field(default="", description="Where a source has several, such as 'MySQL 5.6.13'.")
    control_value: Finite | None = None
    value: Finite | None = None
    ratio: Finite | None = Field(default=None, description="With it over without it, where only that was published.")

    def fits(self, arm_levels: Mapping[str, str]) -> bool:
        """Whether an arm of these levels has all of its own."""
        return all(arm_levels.get(name) == level for name, level in self.levels.items())


class Published(Model):
    source: str
    date: str
    setting: str
    figures: list[PublishedFigure]

    @property
    def cited(self) -> str:
        """Where the figures are from, when, and in which setting."""
        return f"Published: {self.source}, {self.date}. {self.setting.rstrip('.')}."
