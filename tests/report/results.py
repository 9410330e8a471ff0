"""Results of simulated runs and their reports, for the tests of reports."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from typing import Any

from rich.console import Console

from costof import format as fmt
from costof.report import build_result, render_html, render_terminal
from costof.report.result import Result
from costof.results.models import Core, Effect, Sentence, Value
from costof.statistics.estimate import Estimate
from costof.study.load import RequestedLoad
from tests.fake_run import STARTED, Truth, fake_result
from tests.noise import Noise
from tests.support import store
from tests.support.small_plans import plan_of
from tests.truths import SMALL, TRUTHS
from tests.truths.at_load import AtLoad, FarAway, Stalled

MONGODB, TRANSPORT, HTTP = "mongodb-tls", "mysql-transport", "http-tls-termination"
POSTGRES, POOLING, REDIS = "postgres-tls", "postgres-pooling", "redis-tls"
REPLICATION, ENCRYPTION = "mongodb-chained-replication", "mysql-column-encryption"
DURABILITY = ("mariadb-durability", "mongodb-durability", "postgres-durability", "redis-durability")
POSTGRES_AUDIT = "postgres-audit-logging"
SERVICE = "service-mtls"
#: Studies whose smallest runs together have every section of the report that a study can request.
ALL_SECTIONS = (ENCRYPTION, HTTP, POSTGRES_AUDIT, REPLICATION, SERVICE, TRANSPORT)
NOISE = Noise(0.01, drift=0.03)
DISTANCES = ("lan", "us-us", "us-eu")
TUNNELS = ("ssh-aes256-cbc", "ssh-aes256-ctr", "ssh-chacha20-poly1305", "ssh-aes256-gcm")
EVERY_TRANSPORT = ("tls", *TUNNELS)
EVIL = "<script>alert('x')</script>"
VOID = {"meta", "br", "col", "link", "img", "input", "hr", "wbr"}
Golden = Callable[[str, str], None]
"""Type of the fixture `golden`: takes a file's name and the text that it should contain."""


@cache
def result_of(
    study: str, profile: str = "quick", *settings: str, rounds: int = 6, partial: str | None = None
) -> Result:
    """Return the result of a simulated run of the study; cached, also for other test processes."""
    name = hashlib.sha256(repr((study, profile, settings, rounds, partial)).encode()).hexdigest()
    stored = store.folder / name if store.folder is not None else None
    if stored is not None and stored.exists():
        return Result.model_validate_json(stored.read_bytes())
    plan, truth = plan_of(study, profile, *settings), TRUTHS.get(study, Truth())
    result = fake_result(plan, truth, f"{STARTED[:10]}-{study}", rounds=rounds, noise=NOISE, partial=partial)
    if stored is not None:
        # Other processes may read the file at any time, so rename the complete file.
        new = stored.with_name(f"{name}.{os.getpid()}")
        new.write_text(result.model_dump_json())
        new.rename(stored)
    return result


def small(study: str) -> Result:
    """Return the result of a small simulated run of the study. Its report still has all sections of the study."""
    return result_of(study, "quick", *SMALL.get(study, ()))


def mongodb(**changes: Any) -> Result:
    """Return a result of one protected arm, measured by the engine and by a driver. `changes` replace its fields."""
    return result_of(MONGODB, rounds=10).model_copy(update=changes)


@cache
def restarted() -> Result:
    """Return the result of a run with five starts of the servers. At each start, each arm gets a random speed."""
    plan, noise = plan_of(MONGODB, restarts="5"), Noise(0.01, drift=0.03, luck=0.02)
    return fake_result(plan, TRUTHS[MONGODB], f"{STARTED[:10]}-{MONGODB}-restarted", rounds=4, noise=noise)


FRESH = RequestedLoad("300/s", "20")


@cache
def at_load(carried: float = 1.0, load: RequestedLoad = FRESH, come: float = 1.0) -> Result:
    """Return the result of a run at a load (a fixed rate of operations) with 2 ms of round-trip time.

    `carried` is the share of the arriving load that the protected arm can serve. `come` is the share of the requested
    load that arrives.
    """
    plan = plan_of(TRANSPORT, "quick", "transport=plain,tls", "distance=2", load=load)
    return fake_result(plan, AtLoad(carried, come), f"{STARTED[:10]}-{TRANSPORT}-load", noise=NOISE)


@cache
def target_at_load() -> Result:
    """Return the result of a run at a load on a user's server, whose round-trip time is half a millisecond.

    The report predicts the costs at a round-trip time of 2 ms.
    """
    plan = plan_of(TRANSPORT, "quick", "transport=plain,tls", "distance=2", target="mysql://app@db/", load=FRESH)
    return fake_result(plan, FarAway(), f"{STARTED[:10]}-{TRANSPORT}-target", noise=NOISE)


@cache
def stalled() -> Result:
    """Return the result of a run at a load: in its third round, new connections with TLS take 60 ms."""
    plan = plan_of(TRANSPORT, "quick", "transport=plain,tls", "distance=0", load=FRESH)
    return fake_result(plan, Stalled(60.0), f"{STARTED[:10]}-{TRANSPORT}-stalled", noise=NOISE)


def two_keys() -> Result:
    return result_of(MONGODB, "quick", "key=ecdsa-p256,rsa-4096", rounds=10)


def transport(*, every: bool = False, **changes: Any) -> Result:
    """Return a result at three distances. Each distance has two protected arms or, if `every` is true, all of them."""
    settings = [f"transport=plain,{','.join(EVERY_TRANSPORT)}"] if every else []
    return result_of(TRANSPORT, "default", *settings, rounds=12).model_copy(update=changes)


def empty() -> Result:
    return result_of(MONGODB, rounds=0, partial="interrupted before the first round")


def with_sections(result: Result, **changes: Any) -> Result:
    return result.model_copy(update={"sections": result.sections.model_copy(update=changes)})


def answer_texts(result: Result, kind: str) -> list[str]:
    """Write the first sentences of a report again, and return the sentences of this kind, such as 'explanation'.

    Tests change a result first, to see how the sentences change.
    """
    core = Core.model_construct(**{name: getattr(result, name) for name in Core.model_fields})
    return sentence_texts(build_result(core, result.sections).answer, kind)


def without_figures(result: Result, arm: str, error: str) -> Result:
    """Return the result with an error of this arm and without figures of it, as if the arm could not be measured."""
    failed = with_error(result, arm, error)
    arms = [each.model_copy(update={"evidence": []}) if each.name == arm else each for each in failed.arms]
    values = [value for value in result.values if value.arm != arm]
    effects = [effect for effect in result.effects if effect.arm != arm]
    return result.model_copy(update={"arms": arms, "values": values, "effects": effects})


def with_error(result: Result, arm: str, error: str) -> Result:
    arms = [each.model_copy(update={"error": error}) if each.name == arm else each for each in result.arms]
    return result.model_copy(update={"arms": arms})


def printed(
    result: Result, width: int = 100, *, colour: bool = False, encoding: str = "utf-8", full: bool = True
) -> str:
    """Return the report as printed on a terminal of this width or, if `colour` is false, to a pipe."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
    console = Console(file=stream, width=width, force_terminal=colour, color_system="standard" if colour else None)
    render_terminal(result, console, full=full)
    return raw.getvalue().decode(encoding)


_DRAWN: dict[str, str] = {}


def drawn(result: Result) -> str:
    key = result.model_dump_json()
    if key not in _DRAWN:
        _DRAWN[key] = render_html(result)
    return _DRAWN[key]


def spaced(text: object) -> str:
    return str(text).replace(fmt.NBSP, " ")


def sentence_texts(sentences: list[Sentence], kind: str) -> list[str]:
    return [spaced(each.text) for each in sentences if each.kind == kind]


def effect_of(result: Core, metric: str, arm: str) -> Effect:
    (found,) = (each for each in result.effects if (each.metric, each.arm) == (metric, arm))
    return found


def value_of(result: Core, metric: str, arm: str) -> Value:
    (found,) = (each for each in result.values if (each.metric, each.arm) == (metric, arm))
    return found


def near(estimate: Estimate, truth: float) -> bool:
    """Return whether the truth is in an interval twice as wide as the estimate's. Other tests check coverage."""
    half = max((estimate.high - estimate.low) / 2, 1e-3 * abs(truth))
    return estimate.low - half <= truth <= estimate.high + half


class Page(HTMLParser):
    """A parsed page. `wrong` lists tags that are not closed where they should be.

    `outline` lists the page's sections and headings, indented by depth, and the sizes of tables. `text` is all text
    outside of pictures.
    """

    BOXES = frozenset({"header", "nav", "section", "details", "form", "noscript", "table", "footer"})
    TITLES = frozenset({"h1", "h2", "h3", "summary"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.outline: list[str] = []
        self.text = ""
        self._rows: list[int] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("tr", "td", "th") and "table" in self.open:
            self._rows = [*self._rows, 0] if tag == "tr" else [*self._rows[:-1], self._rows[-1] + 1]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in self.BOXES | self.TITLES | {"svg"} and "svg" not in self.open:
            name = dict(attrs).get("id")
            depth = sum(each in self.BOXES for each in self.open)
            self.outline.append("  " * depth + tag + (f" #{name}" if name and tag != "svg" else ""))

    def handle_data(self, data: str) -> None:
        self.text += data if not {"svg", "style", "script"} & set(self.open) else ""
        if (self.TITLES | {"caption"}) & set(self.open) and data.strip():
            self.outline[-1] += " " + " ".join(data.split())

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)
        if tag == "table":
            self.outline[-1] += f": {len(self._rows)} rows of {max(self._rows)}"
            self._rows = []

    def ids(self) -> list[str | None]:
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]
