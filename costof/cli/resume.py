"""`costof run --resume`: continue an earlier run on the same servers."""

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
    from costof.run.rounds import StartingPoint

#: The placeholder that a plan stores for the values in a URL's query, because they may be secrets.
LEFT_OUT = "…"
WAYS_TO_LOG_IN = "--password-file, --ask-password or COSTOF_PASSWORD"


@dataclass(frozen=True)
class Resumed:
    plan: Plan
    ledger: Ledger
    before: StartingPoint
    access: Access | None
    earlier: Run


def reopen(
    folder: Path, options: list[str], budget: str | None, target: TargetArguments, hosts: HostsSettings | None
) -> Resumed:
    """Read an interrupted or completed run from `folder`, and return what is needed to continue it.

    The function starts and writes nothing. `options` are the names of options on the command line that would change the
    plan. Raises `RESUME_DIFFERS`, `RESUMED_WITHOUT_TARGET`, `RESUMED_TARGET_DIFFERS`, `RESUME_NEEDS`, `OTHER_HOSTS` and
    `RUN_COMPLETE`.
    """
    from costof.results.run import read_run

    if options:
        raise CostofError(ErrorText.RESUME_DIFFERS, options=" and ".join(options))
    ledger = Ledger.open(folder)
    done = read_run(ledger)
    access = _access(folder, done.plan, target)
    if (hosts is None) != (done.plan.hosts is None):
        before_hosts, now = ("hosts", "this machine") if hosts is None else ("this machine", "hosts")
        raise CostofError(ErrorText.OTHER_HOSTS, path=folder, before=before_hosts, now=now)
    plan, before = done.plan.with_budget(budget), _before(done)
    if done.partial is None:
        # The run is complete. It can continue only with a larger budget.
        longest, planned = plan.budget_seconds, done.plan.budget_seconds
        can_continue = done.resumable_rounds > 0
        if not (can_continue and longest is not None and longest > max(planned or 0.0, done.measured_seconds)):
            further = f"; to continue it, give a --budget above {planned:.0f}s" if can_continue and planned else ""
            extent = plural(done.rounds, "round")
            raise CostofError(ErrorText.RUN_COMPLETE, path=folder, extent=extent, further=further)
        # The user has already seen the verdicts of the completed run. The analysis that gave these verdicts therefore
        # counts as an interim analysis (a look) of the longer run. It has used a part of the permitted rate of wrong
        # verdicts.
        spent = ERROR_RATE - done.error_rate_spent - done.error_rate_if_resumed
        look = LookRecord(round=done.rounds - 1, error_rate=spent)
        # An interrupted run measures its last round again, because the round may be incomplete. A completed run
        # continues with the next round.
        before = replace(before, rounds=done.rounds, look_at_end=look)
    return Resumed(plan, ledger, before, access, done)


def _before(done: Run) -> StartingPoint:
    from costof.run.rounds import StartingPoint

    identity = done.environment.identity if done.environment else {}
    if done.plan.starts > 1:
        # With --restarts, continue with a new start of the servers: the servers of the last start have ended, so the
        # rounds of that start cannot be continued.
        return StartingPoint(
            sizes=done.sizes,
            start=len(done.starts),
            whole_starts=done.whole_starts,
            earlier_rounds=done.rounds,
            resumed=True,
            identity=identity,
        )
    before = StartingPoint(done.samples, done.whole_rounds, done.measured_seconds, done.error_rate_spent, done.sizes)
    return replace(before, hosts=done.hosts, resumed=True, identity=identity)


def _access(folder: Path, plan: Plan, target: TargetArguments) -> Access | None:
    """Return how to reach the run's target (the user's own servers); None for a lab (servers that costof starts).

    An option that the user gives again must have the same value as in the first command. The plan supplies all other
    options.
    """
    if plan.target is None:
        if target.options:
            raise CostofError(ErrorText.RESUMED_WITHOUT_TARGET, path=folder, options=" and ".join(target.options))
        return None
    original = plan.target_options
    if original is None and target.url is None:
        # The plan was written by an earlier version of costof, which stored only the target's URL and no other options.
        what = f"--target {plan.target}, --tls-ca and other options"
        raise CostofError(ErrorText.RESUME_NEEDS, path=folder, what=what, how="--target and all its options")
    access = _complete(folder, plan, target, original or TargetOptions())
    urls, options = shown_urls(plan.study, access), target_options(plan.study, access)
    assert options is not None
    for option, before, now in _compare(plan, original, target, urls, options):
        if before != now:
            raise CostofError(
                ErrorText.RESUMED_TARGET_DIFFERS,
                path=folder,
                before=_in_words(option, before),
                now=_in_words(option, now),
                option=option,
            )
    check_ca_file(access.ca_file)
    if original is not None and original.with_password and not options.with_password:
        raise CostofError(ErrorText.RESUME_NEEDS, path=folder, what="a password", how=WAYS_TO_LOG_IN)
    return access


def _complete(folder: Path, plan: Plan, target: TargetArguments, original: TargetOptions) -> Access:
    """Return how to reach the target (the user's own servers).

    An option that the user did not give again gets its value from the plan.

    Raises `RESUME_NEEDS` for an option that the plan does not fully store and that the user did not give again.
    """

    def option_value(option: str, stored: str | None, given: str | None) -> str | None:
        if given is not None or stored is None:
            return given
        is_command = option in ("--server-cpu", "--server-memory")
        if LEFT_OUT in stored or (is_command and HIDDEN in stored):
            raise CostofError(ErrorText.RESUME_NEEDS, path=folder, what=f"{option} {stored}", how=option)
        return stored if is_command else without_password(stored)

    url = option_value("--target", plan.target, target.url)
    assert url is not None
    completed = replace(
        target,
        plain_url=option_value("--plain-target", plan.plain_target, target.plain_url),
        pooler_url=option_value("--pooler", original.pooler, target.pooler_url),
        server_cpu=option_value("--server-cpu", original.server_cpu, target.server_cpu),
        server_memory=option_value("--server-memory", original.server_memory, target.server_memory),
        ca_file=target.ca_file or (Path(original.ca_file) if original.ca_file else None),
        database=target.database or original.database,
        allow_plain=target.allow_plain or original.allow_plain,
    )
    return completed.access_at(url)


def _compare(
    plan: Plan,
    original: TargetOptions | None,
    target: TargetArguments,
    urls: tuple[str | None, str | None],
    now: TargetOptions,
) -> Iterator[tuple[str, object, object]]:
    """Yield the name of each option, its value in the original command and its value now."""
    yield "--target", without_password(plan.target), without_password(urls[0])
    yield "--plain-target", plan.plain_target, urls[1]
    if original is None:
        return
    yield "--tls-ca", original.ca_file, now.ca_file
    yield "--allow-plain", original.allow_plain, now.allow_plain
    yield "--database", original.database, now.database
    yield "--server-cpu", original.server_cpu, now.server_cpu
    yield "--server-memory", original.server_memory, now.server_memory
    yield "--pooler", without_password(original.pooler), without_password(now.pooler)
    if target.password is not None and target.password.explicit:
        yield "a password", original.with_password, True


def _in_words(option: str, value: object) -> str:
    if value is None or value is False:
        return f"without {option}"
    return f"with {option}" if value is True else f"with {option} {value}"
