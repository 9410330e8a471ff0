"""The list of kept runs: a run of each study's quick profile, and runs about other questions, such as upgrades."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from costof.studies import study_names
from costof.study.library import load_study

Each = TypeVar("Each")
#: The folder with the archives of complete runs of the published size.
PUBLISHED_RUNS = Path(__file__).parents[1] / "docs" / "runs" / "published"


@dataclass(frozen=True)
class KeptRun:
    """A run that is kept in the repository as `docs/runs/<name>.tar.xz`, and its command.

    - `study`, `options`: the command is `costof run STUDY --profile quick OPTIONS`;
    - `question`: the heading of the run's answer;
    - `page`: the page in `docs/` that quotes the answer. If the page quotes several answers, the anchor of each heading
      is the name of the run;
    - `fetches`: the programs that `costof fetch` gets before the run;
    - `notes`: Markdown below the verdict, an item of a list each: what the verdict alone does not tell;
    - `condition`: a sentence that follows the verdict on other pages: the condition under which it holds.
    """

    name: str
    study: str
    question: str
    page: str
    options: str = ""
    fetches: str = ""
    notes: tuple[str, ...] = ()
    condition: str = ""

    @property
    def is_of_study(self) -> bool:
        """True for the one run whose answer is on the study's own page."""
        return self.name == self.study


#: Options of studies whose quick profile needs more time on a slow machine.
STUDY_OPTIONS = {"postgres-pooling": "--budget 150s"}
#: Notes for the answers of studies. They have no figures of the kept run, which may be measured again.
STUDY_NOTES = {
    "mongodb-chained-replication": (
        "**Only where the primary's CPU is the limit**, as on these nodes with a fifth of a core. With 5 ms between "
        "nodes and a core each, a chain of 7 nodes loses 36 % [30, 41] of its writes with w:majority "
        "([an earlier run](#earlier-runs)), and a published replica set of 7 nodes with 4 cores each loses 30 %.",
    ),
    "postgres-encryption-at-rest": (
        "**The data is larger than PostgreSQL's buffers** (`shared_buffers` of 1 MB). The default profile measures "
        "data in memory too.",
    ),
    "redis-tls": (
        "**Is stunnel better?** No: it adds more than Redis's own TLS to a new connection on the wire, to a GET and to "
        "the memory of a connection, and as much through redis-py.",
        "**Most of the time that redis-py adds** to a new connection goes into loading the system's authorities (CAs), "
        "which it does for each connection with TLS.",
    ),
}
STUDY_CONDITIONS = {
    "mongodb-chained-replication": "This holds only where the primary's CPU is the limit.",
    "postgres-encryption-at-rest": "The data is larger than PostgreSQL's buffers.",
}
UPGRADES_PAGE = "upgrades.md"
UPGRADES = (
    KeptRun(
        "postgres-upgrade",
        "postgres-tls",
        "What does an upgrade from PostgreSQL 15 to 18 cost?",
        UPGRADES_PAGE,
        "--set server_version=15,18 --budget 3m",
        "postgres@15 postgres@18",
    ),
    KeptRun(
        "mariadb-upgrade",
        "mysql-transport",
        "What does an upgrade from MariaDB 10.11 to 11.4 cost?",
        UPGRADES_PAGE,
        "--set server_version=10.11,11.4 --set transport=plain,tls --set distance=lan --budget 3m",
        "mariadb@10.11 mariadb@11.4",
    ),
)


def _of_study(name: str) -> KeptRun:
    title, page = load_study(name).title, f"studies/{name}.md"
    notes, condition = STUDY_NOTES.get(name, ()), STUDY_CONDITIONS.get(name, "")
    return KeptRun(name, name, title, page, STUDY_OPTIONS.get(name, ""), notes=notes, condition=condition)


KEPT = {run.name: run for run in (*map(_of_study, study_names()), *UPGRADES)}


def of_studies(kept: Mapping[str, Each]) -> dict[str, Each]:
    """Return only the entries of runs that answer a study's question. The keys are names of kept runs."""
    return {name: each for name, each in kept.items() if KEPT[name].is_of_study}


def has_published_run(study: str) -> bool:
    """Return whether the repository has a complete run of the published size."""
    return (PUBLISHED_RUNS / f"{study}.tar.xz").exists()
