"""`costof run --resume`: an earlier run to go on with, on the same servers, or the reason why it cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from costof.cli.options import TargetArguments
from costof.errors import CostofError, ErrorText
from costof.format import plural
from costof.model import HIDDEN
from costof.programs.access import check_ca_file
from costof.results.ledger import Ledger, LookRecord
from costof.services.open import shown_urls, target_options
from costof.statistics.verdicts import ERROR_RATE
from costof.study.plan import Plan, TargetOptions
from costof.urls import without_password

if TYPE_CHECKING:
    from costof.messages.plan import HostsSettings
    from costof.programs.access import Access
    from costof.results.run import Run
    from costof.run.rounds import Before

#: Stands for what a shown URL or command leaves out.
LEFT_OUT = "…"
#: The ways to give a password again.
WAYS = "--password-file, --ask-password or COSTOF_PASSWORD"


@dataclass(frozen=True)
class Resumed:
    plan: Plan
    ledger: Ledger
    before: Before
    access: Access | None


def reopen(
    folder: Path, options: list[str], budget: str | None, target: TargetArguments, hosts: HostsSettings | None
) -> Resumed:
    """Nothing is started or written. `options` are those given that would change the plan.

    Raises `RESUME_DIFFERS`, `RESUMED_WITHOUT_TARGET`, `RESUMED_TARGET_DIFFERS`, `RESUME_NEEDS`, `OTHER_HOSTS` and
    `RUN_COMPLETE`.
    """
    from costof.results.run import read_run

    if options:
        raise CostofError(ErrorText.RESUME_DIFFERS, options=" and ".join(options))
    ledger = Ledger.open(folder)
    done = read_run(ledger)
    access = _access(folder, done.plan, target)
    if (hosts is None) != (done.plan.hosts is None):
        begun, now = ("hosts", "this machine") if hosts is None else ("this machine", "hosts")
        raise CostofError(ErrorText.OTHER_HOSTS, path=folder, before=begun, now=now)
    plan, before = done.plan.with_budget(budget), _before(done)
    if done.partial is None:
        # A run that ended by itself goes on only for a larger budget.
        longest, planned = plan.budget_seconds, done.plan.budget_seconds
        by_budget = planned is not None and plan.starts == 1 and done.rounds < plan.most_rounds
        if not (by_budget and longest is not None and longest > max(planned or 0.0, done.measured_seconds)):
            further = f"; to measure further, give a --budget above {planned:.0f}s" if by_budget and planned else ""
            extent = plural(done.rounds, "round")
            raise CostofError(ErrorText.RUN_COMPLETE, path=folder, extent=extent, further=further)
        # It has told its verdicts, with all that was left of the error rate: who goes on has looked at them. Those of
        # the longer run have half of that, so that those of all lengths together stay below twice the rate.
        look = LookRecord(round=done.rounds - 1, error_rate=(ERROR_RATE - done.error_rate_spent) / 2)
        # Its last round was not cut off.
        before = replace(before, rounds=done.rounds, look_at_end=look)
    return Resumed(plan, ledger, before, access)


def _before(done: Run) -> Before:
    from costof.run.rounds import Before

    identity = done.environment.identity if done.environment else {}
    if done.plan.starts > 1:
        # One that was cut off cannot go on where it was, on servers that have been started anew.
        return Before(
            sizes=done.sizes,
            start=len(done.starts),
            whole_starts=done.whole_starts,
            earlier_rounds=done.rounds,
            resumed=True,
            identity=identity,
        )
    before = Before(done.samples, done.whole_rounds, done.measured_seconds, done.error_rate_spent, done.sizes)
    return replace(before, hosts=done.hosts, resumed=True, identity=identity)


def _access(folder: Path, plan: Plan, given: TargetArguments) -> Access | None:
    """Return how the run's target was reached: what is given again must be as it was, and the plan has the rest."""
    if plan.target is None:
        if given.options:
            raise CostofError(ErrorText.RESUMED_WITHOUT_TARGET, path=folder, options=" and ".join(given.options))
        return None
    begun = plan.target_options
    if begun is None and given.url is None:
        # The ledger of an earlier version, which kept the URL alone.
        what = f"--target {plan.target}, --tls-ca and other options"
        raise CostofError(ErrorText.RESUME_NEEDS, path=folder, what=what, how="--target and all its options")
    access = _completed(folder, plan, given, begun or TargetOptions())
    urls, options = shown_urls(plan.study, access), target_options(plan.study, access)
    assert options is not None
    for option, before, now in _compared(plan, begun, given, urls, options):
        if before != now:
            raise CostofError(
                ErrorText.RESUMED_TARGET_DIFFERS,
                path=folder,
                before=_in_words(option, before),
                now=_in_words(option, now),
                option=option,
            )
    check_ca_file(access.ca_file)
    if begun is not None and begun.with_password and not options.with_password:
        raise CostofError(ErrorText.RESUME_NEEDS, path=folder, what="a password", how=WAYS)
    return access


def _completed(folder: Path, plan: Plan, given: TargetArguments, begun: TargetOptions) -> Access:
    """Complete what is given from the plan. Raises `RESUME_NEEDS` for what the plan does not hold whole."""

    def kept(option: str, value: str | None, again: str | None) -> str | None:
        if again is not None or value is None:
            return again
        if LEFT_OUT in value or (option == "--server-cpu" and HIDDEN in value):
            raise CostofError(ErrorText.RESUME_NEEDS, path=folder, what=f"{option} {value}", how=option)
        return without_password(value) if option != "--server-cpu" else value

    url = kept("--target", plan.target, given.url)
    assert url is not None
    whole = replace(
        given,
        plain_url=kept("--plain-target", plan.plain_target, given.plain_url),
        pooler_url=kept("--pooler", begun.pooler, given.pooler_url),
        server_cpu=kept("--server-cpu", begun.server_cpu, given.server_cpu),
        ca_file=given.ca_file or (Path(begun.ca_file) if begun.ca_file else None),
        database=given.database or begun.database,
        allow_plain=given.allow_plain or begun.allow_plain,
    )
    return whole.access_at(url)


def _compared(
    plan: Plan,
    begun: TargetOptions | None,
    given: TargetArguments,
    urls: tuple[str | None, str | None],
    now: TargetOptions,
) -> Iterator[tuple[str, object, object]]:
    """Yield options, each with how the run was begun and how it would go on."""
    yield "--target", without_password(plan.target), without_password(urls[0])
    yield "--plain-target", plan.plain_target, urls[1]
    if begun is None:
        return
    yield "--tls-ca", begun.ca_file, now.ca_file
    yield "--allow-plain", begun.allow_plain, now.allow_plain
    yield "--database", begun.database, now.database
    yield "--server-cpu", begun.server_cpu, now.server_cpu
    yield "--pooler", without_password(begun.pooler), without_password(now.pooler)
    if given.password is not None and given.password.explicit:
        yield "a password", begun.with_password, True


def _in_words(option: str, value: object) -> str:
    if value is None or value is False:
        return f"without {option}"
    return f"with {option}" if value is True else f"with {option} {value}"
