"""Tests of this project's own rules, which no linter knows: names of studies, the map of folders, file names."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from costof.studies import study_names
from costof.study.library import load_study
from tests.manual.command_lines import committed_pages, made

ROOT = Path(__file__).parents[2]
COSTOF, ENGINE = ROOT / "costof", ROOT / "engine"
RUST = ("engine/src", "engine/crates", "engine/tests")
#: Python code may not contain the name of any study's level, except these names, which also have another meaning. Each
#: may occur only in the files and folders listed with it.
WORDS_OF_PYTHON = {
    # Besides being levels of studies, "plain" and "tls" are transports of a client in plans and URLs. "tls" is a phase
    # of a connection, and "plain" the usual kind of a row or paragraph, or of an output in a gateway's rules.
    "plain": ("report/", "messages/plan.py", "services/encryption/rules.py", "services/http/"),
    "tls": ("cli/", "report/", "instruments/drivers/", "messages/plan.py", "programs/", "services/"),
    "full": ("cli/", "instruments/clients/", "instruments/drivers/", "messages/plan.py", "services/http/"),
    "ca-only": ("results/warnings.py", "cli/ycsb/", "instruments/clients/", "instruments/drivers/", "messages/plan.py"),
    **dict.fromkeys(("prime256v1", "x25519", "X25519MLKEM768"), ("messages/plan.py",)),
    # Besides being a study's level, "local" is the name of a MongoDB database, and a kind of forwarding in OpenSSH.
    "local": ("programs/openssh.py", "programs/target_database.py"),
    # Besides being levels of studies, "majority" is a write concern of MongoDB, and the next three names are query
    # modes of pgbench.
    "majority": ("cli/ycsb/databases/mongodb.py", "programs/mongod/"),
    "extended": ("instruments/drivers/", "programs/postgres/"),
    "simple": ("instruments/clients/", "instruments/drivers/", "programs/postgres/"),
    "prepared": (
        "instruments/commands/runner.py",
        "instruments/drivers/",
        "instruments/hosts/population.py",
        "programs/mariadb/",
        "programs/postgres/",
    ),
    # Besides being levels of studies, these are values of PostgreSQL's synchronous_commit that need a standby.
    **dict.fromkeys(("remote_write", "remote_apply"), ("programs/postgres/",)),
    # Besides being levels of studies, these two are kinds of keys that the lab's certificate authority creates.
    "rsa-2048": ("lab/certificates.py",),
    "ecdsa-p256": ("lab/certificates.py", "services/encryption/target.py"),
    # Besides being levels of studies, these are names of server programs, and "balancer" is the role of a process.
    "envoy": ("programs/sidecars/envoy.py",),
    "haproxy": ("programs/haproxy.py", "programs/sidecars/haproxy.py"),
    "nginx": ("programs/modsecurity.py", "programs/nginx.py", "services/firewall/"),
    "balancer": ("programs/balancer.py", "services/http/", "study/load.py"),
    # Besides being levels of studies, "all" and "ddl" are classes of audited statements. "stderr", "collector" and
    # "syslog" are destinations of PostgreSQL's log, and "syslog" is the role of the syslog daemon.
    "all": ("programs/postgres/", "programs/sidecars/"),
    "ddl": ("programs/",),
    "stderr": ("programs/",),
    "collector": ("programs/postgres/",),
    "syslog": ("programs/", "lab/syslog.py"),
    # Besides being levels of studies, these are shapes of a replica set, and "chain" is evidence of a chain of
    # certificates.
    "star": ("services/replication/shape.py",),
    "chain": ("results/arms.py", "services/replication/shape.py"),
    "natural": ("services/replication/shape.py",),
    # Besides being a study's level, "lan" is the default if no distance was requested.
    "lan": ("study/schema.py",),
    # Besides being a study's level, "direct" is the name of a route in files of the lab, and PostgreSQL's term for TLS
    # without a request for it.
    "direct": ("instruments/clients/", "instruments/drivers/", "programs/postgres/", "services/http/"),
}
ALGORITHMS = ("aes-128-gcm", "aes-128-ctr", "aes-128-cbc", "aes-128-ecb", "sm4-gcm", "sm4-cbc")
WORDS_OF_RUST = {
    # Besides being levels of studies, "plain" is the transport of a client, and "tls" a phase of a connection.
    "plain": ("crates/gateway/src/learn.rs", "crates/gateway/src/plan.rs", "crates/record/"),
    "tls": ("crates/record/",),
    # Besides being a study's level, "local" is the scope of a variable of a MySQL session.
    "local": ("crates/gateway/src/session_statements.rs",),
    # Besides being a study's level, "ecdsa-p256" is the kind of key of a certificate.
    "ecdsa-p256": ("crates/net/src/transport/tls.rs",),
    "majority": ("crates/wire/src/mongodb/",),
    # Besides being levels of studies, these are names of key-exchange groups in OpenSSL.
    **dict.fromkeys(("prime256v1", "x25519", "X25519MLKEM768"), ("crates/net/src/settings.rs",)),
    # Besides being a study's level, "aws-lc" is the name of a Cargo feature that selects this TLS library.
    "aws-lc": ("crates/net/src/transport/",),
    **dict.fromkeys(ALGORITHMS, ("crates/encryption/src/algorithm.rs",)),
}
RUST_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')


def sources(suffix: str, *folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob(f"*{suffix}"))


def texts_of_python(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def texts_of_rust(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string in the code before the tests (`#[cfg(test)]` at the left margin)."""
    code = path.read_text().split("\n#[cfg(test)]", 1)[0]
    for number, line in enumerate(code.splitlines(), 1):
        if not line.lstrip().startswith("//"):
            yield from ((number, text) for text in RUST_TEXT.findall(line))


def names() -> set[str]:
    """Return the names of all studies and levels, except numbers and switches (on, off), which are too common."""
    studies = [load_study(name) for name in study_names()]
    levels = {level for study in studies for factor in study.factors.values() for level in factor.levels}
    return {name for name in levels | set(study_names()) if not re.fullmatch(r"[\d.]+|on|off|none", name)}


def check_names(texts: Iterable[tuple[Path, int, str]], folder: Path, words: Mapping[str, tuple[str, ...]]) -> None:
    """Fail if a string is the name of a study or level, unless `words` allows the name in this file or folder.

    Also fail if `words` allows a name where it does not occur.
    """
    known, used_names, used = names(), [], set()
    for path, line, text in texts:
        if text in known:
            file = str(path.relative_to(folder))
            place = next((place for place in words.get(text, ()) if file.startswith(place)), None)
            if place is None:
                used_names.append(f"{file}:{line} {text!r}")
            used.add((text, place))
    assert used_names == [], "a study's or a level's name: let the level say in the study's file what it does"
    assert {(word, place) for word, places in words.items() for place in places} - used == set(), "without a use"


def test_python_code_contains_no_names_of_studies_or_factor_levels() -> None:
    texts = ((path, line, text) for path in sources(".py", "costof") for line, text in texts_of_python(path))
    check_names(texts, COSTOF, WORDS_OF_PYTHON)


def test_rust_code_contains_no_names_of_studies_or_factor_levels() -> None:
    files = [
        path for path in sources(".rs", "engine/src", "engine/crates") if "tests" not in str(path.relative_to(ROOT))
    ]
    check_names(((path, line, text) for path in files for line, text in texts_of_rust(path)), ENGINE, WORDS_OF_RUST)


def rows_of_map(title: str, name: str) -> dict[str, str]:
    """Return the rows of a table in docs/architecture.md: the second column by the first.

    Only rows whose first column matches the pattern `name` are returned.
    """
    section = (ROOT / "docs" / "architecture.md").read_text().split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    return dict(re.findall(rf"^\| {name} \| (.*?) \|", section, re.MULTILINE))


def summary(docstring: str) -> str:
    """Return the first line of a docstring, which must be a complete sentence, without its full stop."""
    first, _, rest = docstring.partition("\n")
    assert first.endswith("."), f"no summary in the first line: {first!r}"
    assert not rest.partition("\n")[0], f"the summary is longer than its line: {first!r}"
    return first.removesuffix(".")


def test_architecture_page_describes_each_folder_by_the_first_line_of_its_docstring() -> None:
    files = [path for path in sources("__init__.py", "costof") if path.parent != COSTOF]
    docstrings = {path: ast.get_docstring(ast.parse(path.read_text())) or "" for path in files}
    of_folders = {str(path.parent.relative_to(COSTOF)): summary(text) for path, text in docstrings.items()}
    assert rows_of_map("Folders of `costof/`", r"`([a-z_/]+)/`") == of_folders


def test_architecture_page_describes_each_crate_by_the_first_line_of_its_documentation() -> None:
    heads = {path.parents[1].name: path.read_text() for path in sources("lib.rs", "engine/crates")}
    of_crates = {name: summary(re.sub("^//! ?", "", head, flags=re.MULTILINE)) for name, head in heads.items()}
    assert rows_of_map("Crates of `engine/`", "`([a-z]+)`") == of_crates


def test_files_named_in_the_docs_exist() -> None:
    """Names of Python and Rust files in the docs match the end of a path. Links must lead to a file."""
    files = [path.as_posix() for path in sources(".py", "costof", "tests", "benches", "manual", "truth")]
    files += [path.as_posix() for path in sources(".rs", *RUST)]
    pages = [ROOT / "CHANGELOG.md", *committed_pages()]
    named = [(page, name) for page in pages for name in re.findall(r"`([\w./-]+\.(?:py|rs))`", page.read_text())]
    missing = [f"{page.name}: {name}" for page, name in named if not any(f.endswith(f"/{name}") for f in files)]
    links = [(page, link) for page in pages for link in re.findall(r"\]\(([\w./-]+)[)#]", page.read_text())]
    targets = [(page, link, (page.parent / link).resolve()) for page, link in links]
    missing += [f"{page.name}: {link}" for page, link, path in targets if not path.exists() and not made(path)]
    assert missing == []


def test_no_folder_has_files_named_by_singular_and_plural_of_one_word() -> None:
    """For example, `costof/lab/` and its subfolders must not have both `host.py` and `hosts.py`."""
    found = defaultdict(set)
    for path in sources(".py", "costof"):
        top, *_ = path.relative_to(COSTOF).parts
        found[top, path.stem.removesuffix("s")].add(path.stem)
    assert [sorted(stems) for stems in found.values() if len(stems) > 1] == []
