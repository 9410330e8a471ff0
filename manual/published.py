"""The page about five publications: every published figure beside the figures of our own run.

Our runs have the size of the published measurements. All figures come from the stored runs and from the studies' files.
For a study without such a run, the page has the published figures and the verdict of the run on the study's own page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from costof import format as fmt
from costof.format import Text
from costof.lab.round_trips import BY_TCP
from costof.report.markdown import escape, pipe_table
from costof.report.result import Result
from costof.results.arms import NEAR_ONE_CORE
from costof.results.index import Index
from costof.results.models import Arm, Effect
from costof.statistics.estimate import Estimate
from costof.study.library import load_study
from costof.study.schema import PublishedFigure, Study
from manual import claims, glance
from manual.claims import PROFILE, Agreement, Claim, Direction
from manual.published_runs import arguments

STUDIES = claims.PUBLICATIONS
NOT_YET = "Not yet run at the published size"
HEAD = f"""# Five publications beside our runs

Five publications say what a protection costs. The profile `{PROFILE}` of a study repeats the publication's table in its
own size, on our servers and one machine. `make docs` computes this page from the runs in the repository and from the
published figures in the studies' files; no figure is written by hand.

{claims.RULE} *Ratio of ratios* is the published ratio divided by ours.

"""
COLUMNS = ("figure", "published", "here", "ratio of ratios", "agreement", "size")
#: The page mentions a CPU limit if it throttles a program for at least this share of the time.
LEAST_SHOWN = 0.05
#: The sentences about causes mention the distance of an arm if its round-trip time is at least this.
FAR_MS = 1.0


def page(results: Mapping[str, Result], smaller: Mapping[str, Result]) -> str:
    """Return the page in Markdown, from each study's run of the published size and from its smaller run."""
    done = [study for study in STUDIES if study in results]
    count = f"{len(done)} of the {len(STUDIES)} publications have been repeated at their size so far.\n"
    texts = [HEAD, "## What stands\n", *([count] if len(done) < len(STUDIES) else [])]
    for make in (_stands, _section):
        texts += [make(study, results.get(study), smaller.get(study)) for study in STUDIES]
    return "\n".join(texts).replace(fmt.NBSP, " ")


@dataclass(frozen=True)
class Statement:
    """A statement of a publication: figures about one metric and one protection, either all costs or all gains.

    `figures` has a list for each published figure. Each list compares the figure with our run: it has a claim for each
    arm with the figure's settings.
    """

    what: str
    figures: Sequence[Sequence[Claim]]

    @property
    def compared(self) -> list[Claim]:
        return [each for found in self.figures for each in found]

    @property
    def outcome(self) -> str:
        """Return how far the effects in our run confirm the statement, such as 'Stands' or 'Stands in direction'."""
        found = {each.agreement for each in self.compared}
        if not found:
            return "Not measured"
        if found == {Agreement.YES}:
            return "Stands"
        if found <= {Agreement.YES, Agreement.IN_DIRECTION}:
            return "Stands in direction"
        if found == {Agreement.UNDECIDED}:
            return "Undecided"
        return "Does not stand" if found <= {Agreement.NO, Agreement.UNDECIDED} else "Stands in part"

    @property
    def line(self) -> str:
        found, missing = self.compared, sum(not each for each in self.figures)
        text = f"**{self.outcome}.** {escape(self.what)}"
        if not found:
            return f"{text}."
        published, ours = ([each.ratio for each in found], [_ratio(each).value for each in found])
        counts = [claims.counts(found)] if len(found) > 1 else []
        counts += [f"{fmt.plural(missing, 'figure')} not measured"] if missing else []
        note = f" ({'; '.join(counts)})" if counts else ""
        return f"{text}: published {_range(published)}, here {_range(ours)}{note}."


def _stands(study: str, result: Result | None, smaller: Result | None) -> str:
    """Return, in Markdown, the publication's title and a line for each of its statements."""
    head = f"**[{escape(glance.title(study))}](#{study})**"
    if result is None:
        return f"{head} {_not_yet(smaller)}\n"
    return "\n".join([f"{head}\n", *(f"- {each.line}" for each in statements(result)), ""])


def _not_yet(smaller: Result | None) -> str:
    """Return, in Markdown, that there is no run of the published size, and what a smaller run says."""
    if smaller is None:
        return f"{NOT_YET}."
    texts = [escape(glance.cost(smaller)), f"{agreement}." if (agreement := claims.summary(smaller)) else ""]
    run = f"[smaller run](studies/{smaller.study}.md#{claims.ANCHOR})"
    return f"{NOT_YET}; a {run} says: {' '.join(filter(None, texts))}"


def statements(result: Result) -> list[Statement]:
    """Return the publication's statements, in the order of its figures."""
    study, index, found = load_study(result.study), Index(result), claims.claims_by_figure(result)
    groups: dict[tuple[object, ...], list[int]] = {}
    for number, figure in enumerate(_figures(study)):
        protection = [each for each in figure.levels.items() if not study.factors[each[0]].context]
        groups.setdefault((figure.metric, *protection, _direction(study, figure)), []).append(number)
    return [
        Statement(_what(study, index, _figures(study)[numbers[0]], same), same)
        for numbers in groups.values()
        for same in [[found[number] for number in numbers]]
    ]


def _direction(study: Study, figure: PublishedFigure) -> Direction:
    ratio, metric = claims.ratio_of(figure), study.metrics[figure.metric]
    assert ratio is not None, "a published figure has a ratio or two values"
    return claims.direction(ratio, metric.margin, metric.better)


def _what(study: Study, index: Index, figure: PublishedFigure, found: Sequence[Sequence[Claim]]) -> str:
    """Return text such as "TLS lowers 'queries a second' (at us-us; at us-eu)"."""
    arms = [arm for each in found for claim in each if (arm := index.arm(claim.effect.arm)) is not None]
    labels = [*dict.fromkeys(arm.label for arm in arms)]
    each_of = "each of " if len(labels) > 1 else ""
    protection = each_of + fmt.listed(labels) if labels else claims.levels(study, figure, context=False)
    contexts = [*dict.fromkeys(arm.where.strip() for arm in arms if arm.where)]
    where = f" ({'; '.join(contexts)})" if contexts else ""
    return fmt.capital(f"{protection} {_says(study, figure)} {_metric(study, figure.metric)}{where}")


def _says(study: Study, figure: PublishedFigure) -> str:
    if _direction(study, figure) is Direction.NONE:
        return "makes no difference to"
    verbs, ratio = fmt.verbs(study.metrics[figure.metric].unit), claims.ratio_of(figure)
    return verbs.more if ratio is not None and ratio > 1 else verbs.less


def _range(ratios: Sequence[float]) -> str:
    least, most = (claims.change(each) for each in (min(ratios), max(ratios)))
    return least if least == most else f"{least} to {most}"


def _section(study: str, result: Result | None, smaller: Result | None) -> str:
    published = load_study(study).published
    assert published is not None
    texts = [f"## {escape(glance.title(study))} {{#{study}}}", escape(published.cited)]
    if result is None:
        texts += [_not_yet(smaller), _published_table(load_study(study))]
    else:
        texts += [
            escape(claims.our_setting(result)),
            *([f"**Partial: {escape(result.partial)}.**"] if result.partial else []),
            _table(result),
            *_not_compared(result),
            "What this run shows of the reasons:",
            "\n".join(f"- {escape(each)}" for each in reasons(result)),
            f"[The study](studies/{study}.md) · [raw results](runs/{PROFILE}/{study}.tar.xz) · {Index(result).extent}",
        ]
    return "\n\n".join([*texts, f"```console\n$ costof {' '.join(arguments(study))}\n```\n"])


def _table(result: Result) -> str:
    return pipe_table(COLUMNS, (_cells(each) for found in claims.claims_by_figure(result) for each in found))


def _cells(claim: Claim) -> list[str]:
    ratio = str(ratio_of_ratios(claim))
    cells = (claim.what, claim.published, claim.ours, ratio, claim.agreement.value, claim.because)
    return [escape(cell) for cell in cells]


def ratio_of_ratios(claim: Claim) -> Text:
    """Return the published ratio divided by ours. Its interval is computed from the interval of our ratio."""
    quotient = _ratio(claim).through(lambda ours: claim.ratio / ours)
    return fmt.absolute(quotient, decimals=max(2, fmt.estimate_decimals(quotient)))


def _ratio(claim: Claim) -> Estimate:
    assert claim.effect.printed_ratio is not None, "claims are only about effects with a ratio"
    return claim.effect.printed_ratio


def _not_compared(result: Result) -> Iterator[str]:
    """Yield a sentence with the number of published figures for which this run has no figure of its own.

    Yield nothing if there are none. Yield a further sentence for each arm that failed, if a published figure is
    about that arm.
    """
    missing = [found for found in claims.claims_by_figure(result) if not found]
    if missing:
        yield f"This run has nothing to compare with {fmt.plural(len(missing), 'published figure')}."
    index = Index(result)
    for arm in index.arms_in_error:
        if any(each.fits(arm.levels) for each in _figures(load_study(result.study))):
            yield escape(index.failure(arm))


def _published_table(study: Study) -> str:
    rows = (
        [escape(claims.named(study, each)), escape(claims.published_text(each, study.metrics[each.metric].unit))]
        for each in _figures(study)
    )
    return pipe_table(("figure", "published"), rows)


def _metric(study: Study, name: str) -> str:
    return f"'{study.metrics[name].label}'"


def _figures(study: Study) -> list[PublishedFigure]:
    return study.published.figures if study.published is not None else []


def reasons(result: Result) -> list[str]:
    """Return sentences on the causes of the compared effects: each arm's protocol, cipher, round trips and CPU time."""
    index = Index(result)
    effects: dict[tuple[str, str], dict[str, Effect]] = {}
    for claim in (each for found in claims.claims_by_figure(result) for each in found):
        arm, metric = claim.effect.arm, claim.effect.metric
        effects.setdefault((arm, index.metrics[metric].workload), {})[metric] = claim.effect
    used = {arm: facts for arm, _ in effects if (facts := _facts(index, arm))}
    texts = [f"{fmt.capital(index.label_at(arm))} used {facts}." for arm, facts in used.items()]
    texts += [_reason(index, arm, workload, [*same.values()]) for (arm, workload), same in effects.items()]
    return [*texts, _machine(result)]


def _facts(index: Index, name: str) -> str:
    """Return protocol, cipher and key of an arm's connections, such as 'TLSv1.2, DHE-RSA-AES256-SHA and rsa-2048'."""
    arm = index.arm(name)
    facts = [each.facts for each in arm.evidence] if arm is not None else []
    kinds = ("protocol", "cipher", "key")
    values = dict.fromkeys(each[kind] for each in facts for kind in kinds if kind in each)
    return fmt.listed([*values])


def _reason(index: Index, name: str, workload: str, effects: Sequence[Effect]) -> str:
    """Return a sentence with the round trips and the CPU times of an arm and its control in a workload."""
    arm = index.arm(name)
    assert arm is not None
    parts = [text for effect in effects for text in _trips(index, effect, arm)]
    parts = [*(parts or ["round trips were not counted"]), *_cpu(index, workload, effects, arm)]
    label = fmt.capital(index.workload_label(workload))
    return f"{label}, {index.label_at(name)}: {'; '.join(dict.fromkeys(parts))}."


def _trips(index: Index, effect: Effect, arm: Arm) -> Iterator[str]:
    before, after = (_round_trips(index, effect.metric, name) for name in (arm.control_arm or "", arm.name))
    if before is None or after is None:
        return
    label = f"'{index.metric_label(effect.metric)}' has {fmt.round_trips(after)}"
    if fmt.count(before) == fmt.count(after):
        yield f"{label}, as many as without"
        return
    yield f"{label} instead of {fmt.count(before)}"
    link = _link_ms(index, arm)
    if link >= FAR_MS and before and after:
        alone = before / after if effect.unit == "per_second" else after / before
        yield f"on this link of {fmt.milliseconds(link)} they alone would make {claims.change(alone)}"


def _round_trips(index: Index, metric: str, arm: str) -> float | None:
    value = index.value(metric, arm)
    return value.round_trips if value is not None else None


def _link_ms(index: Index, arm: Arm) -> float:
    """Return the measured round-trip time of the arm's link; the planned one if it was not measured."""
    measured = {each.name: each.median_ms for each in index.core.links if each.method == BY_TCP}
    return measured.get(arm.context, index.core.distances.get(arm.context, 0.0))


def _cpu(index: Index, workload: str, effects: Sequence[Effect], arm: Arm) -> Iterator[str]:
    by_arm = {each.arm: each for each in index.core.cpu if each.workload == workload}
    before, after = by_arm.get(arm.control_arm or ""), by_arm.get(arm.name)
    if before is None or after is None:
        return
    # Seconds for 1,000 operations are milliseconds for one operation.
    changed = [
        f"{role} {_ms(before.seconds_per_1000.get(role, 0.0))} → {_ms(after.seconds_per_1000.get(role, 0.0))}"
        for role in after.seconds_per_1000
    ]
    yield f"CPU time of an operation: {fmt.listed(changed)}"
    added = sum(after.seconds_per_1000.values()) - sum(before.seconds_per_1000.values())
    # Compare the CPU time with the longest time: the CPU time is of the whole operation, but other times may be only of
    # a part of it.
    times = [each for each in effects if each.unit == "ms"]
    longest = max(times, key=lambda each: each.difference.value, default=None)
    if longest is not None and 0 < added <= longest.difference.value:
        label = index.metric_label(longest.metric)
        yield f"added CPU time is {fmt.percent(added / longest.difference.value)} of the time added to '{label}'"
    if after.busiest:
        yield f"more than {fmt.share(NEAR_ONE_CORE)} of one core is used by the {after.busiest}"
    for role, share in after.throttled.items():
        if share >= LEAST_SHOWN:
            yield f"a CPU limit stops the {role} for {fmt.percent(share)} of the time"


def _ms(value: float) -> str:
    return fmt.with_unit(fmt.number(value, fmt.significant_decimals(value, 2)), "ms")


def _machine(result: Result) -> str:
    cores = result.environment.get("cores", "unknown")
    return f"Servers, client and links shared {cores} cores of one machine."
