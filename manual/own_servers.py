"""The line on each study's page that says whether the study measures a user's own servers, and with which options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import SecretStr

from costof.errors import EXIT_USAGE, CostofError
from costof.format import listed
from costof.programs.access import Access, Password
from costof.programs.mongod.target import REPLICA_SET
from costof.services.open import TWO_URLS, offered_levels, open_service, shown_urls
from costof.study.library import load_study
from costof.study.plan import Options, resolve
from costof.study.schema import Level, Study

TITLE = "Your own servers"
#: Example URLs of a user's own servers, by the program of a study's service or, if it has none, by the service's kind.
URLS = {
    "postgres": "postgresql://user@db/shop",
    "mariadb": "mysql://user@db:3306/",
    "mongod": "mongodb://user@db:27017/",
    "redis": "rediss://user@db:6380/?plain_port=6379",
    "http": "https://shop.example/",
    "replication": "mongodb://user@db:27017/?replicaSet=rs0&tls=true",
    "encryption": "mysql://user@db:3306/",
}
#: Some of these URLs do not require TLS. For studies that measure TLS, the option --tls-ca with this file requires it,
#: for costof's own connection too. The option --allow-plain then permits the measured connections without TLS.
CA_FILE = "ca.pem"
#: What to do with servers of the user's own that the study cannot measure.
COMPARE = (
    " To compare two servers of your own, one with the protection and one without, let `costof versus` run a load "
    "generator against both ([how](../own-questions.md))."
)
PLAIN_URL, POOLER_URL = "http://shop.example/", "postgresql://user@pooler:6432/shop"


def target_words(study: Study) -> list[str]:
    """Return options for a run on the user's own servers. `line` checks whether the study accepts them."""
    words = ["--target", _url(study)]
    if study.service.kind in TWO_URLS:
        words += ["--plain-target", PLAIN_URL]
    if _has_pooler(study):
        words += ["--pooler", POOLER_URL]
    if study.service.kind not in TWO_URLS and any(_uses_tls(level) for level in _levels(study)):
        words += ["--tls-ca", CA_FILE, "--allow-plain"]
    return words


def line(name: str) -> str:
    """Return the line in Markdown.

    To find out whether the study measures a user's own servers, the function plans a run on the example URLs, without
    connecting to them.
    """
    study = load_study(name)
    access = Access(
        url=_url(study),
        plain_url=PLAIN_URL if study.service.kind in TWO_URLS else None,
        pooler_url=POOLER_URL if _has_pooler(study) else None,
        password=None if study.service.kind in TWO_URLS else Password(SecretStr("example"), explicit=False),
        allow_plain=study.service.kind not in TWO_URLS,
    )
    try:
        target, plain_target = shown_urls(study, access)
        offered = offered_levels(study, access)
        options = Options("quick", target=target, plain_target=plain_target, offered=offered)
        open_service(resolve(study, options), access, "example")
    except CostofError as refused:
        if refused.exit_status != EXIT_USAGE:
            raise
        reason = str(refused).partition(";")[0]
        return f"- **{TITLE}:** {reason}.{COMPARE}"
    words = " ".join(f"'{word}'" if "?" in word else word for word in target_words(study))
    # The levels of the page's run that no server of the user's own can offer.
    factor = study.factors[study.main_factor]
    measured = study.profiles["quick"].factors.get(study.main_factor) or factor.default
    in_lab = [f"`{level}`" for level in measured if offered is not None and not offered(factor.levels[level])]
    without = f", without {listed(in_lab)}, which only a lab has" if in_lab else ""
    return (
        f"- **{TITLE}:** measured with `costof run {name} {words}` ([how](../own-servers.md)){without}{_scope(study)}."
    )


def _scope(study: Study) -> str:
    """Return which levels a pooler of the user's own adds, and what a target measures instead of the main factor."""
    of_pooler = [f"`{name}`" for name, level in _main_levels(study).items() if level.target.get("pooler")]
    pooler = f"; `--pooler` adds {listed(of_pooler)}" if of_pooler else ""
    factors = listed([study.factors[name].label for name in study.target_control])
    instead = f"; this compares the {factors}, not the {study.factors[study.main_factor].label}" if factors else ""
    return pooler + instead


def _url(study: Study) -> str:
    if any(level.target.get(REPLICA_SET) for level in _levels(study)):
        return URLS["replication"]
    return URLS.get(study.service.program or study.service.kind, URLS["http"])


def _has_pooler(study: Study) -> bool:
    return any(level.target.get("pooler") for level in _levels(study))


def _main_levels(study: Study) -> Mapping[str, Level]:
    return study.factors[study.main_factor].levels


def _levels(study: Study) -> Iterable[Level]:
    return _main_levels(study).values()


def _uses_tls(level: Level) -> bool:
    return level.transport.get("kind") == "tls"
