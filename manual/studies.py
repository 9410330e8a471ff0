"""The studies as their files say them: factors with their levels, workloads, metrics, profiles."""

from __future__ import annotations

from collections.abc import Iterator

from costof.studies import study_names
from costof.study.library import load_study
from costof.study.schema import Study

HEAD = """# Studies

Made from the studies' files. What `--set FACTOR=LEVEL,LEVEL` takes is here; levels in bold are measured where nothing
is set. What a study is about, and an answer, is on [its own page](../studies.md).
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
