"""Reference of the studies: factors with their levels, metrics, profiles."""

from __future__ import annotations

from collections.abc import Iterator

from costof.studies import study_names
from costof.study.library import load_study
from costof.study.schema import Study

HEAD = """# Studies

Generated from the study files. These are the factors and levels of `--set FACTOR=LEVEL,LEVEL`; levels in bold are the
default. [Studies](../studies.md) explains each study and shows an answer.
"""


def page() -> str:
    return HEAD + "".join(f"\n## {name}\n\n{chr(10).join(_lines(load_study(name)))}\n" for name in study_names())


def _lines(study: Study) -> Iterator[str]:
    yield f"{study.question}\n"
    yield from ("| factor | levels | where |", "| --- | --- | --- |")
    for name, factor in study.factors.items():
        levels = ", ".join(f"**`{level}`**" if level in factor.default else f"`{level}`" for level in factor.levels)
        where = " and ".join(f"{other} is {' or '.join(among)}" for other, among in factor.when.items())
        yield f"| `{name}` ({factor.label}) | {levels} | {where} |"
    yield from ("\n| metric | better | |", "| --- | --- | --- |")
    for metric in study.metrics.values():
        yield f"| {metric.label} | {metric.better} | {'answers the question' if metric.headline else ''} |"
    yield from ("\n| profile | |", "| --- | --- |")
    yield from (f"| `{name}` | {profile.description} |" for name, profile in study.profiles.items())
