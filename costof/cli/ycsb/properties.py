"""Java property files and `-p name=value`, as YCSB's client reads them (site.ycsb.Client.parseArguments)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

import javaproperties

from costof.errors import CostofError, Problem

Properties = dict[str, str]


def core_workloads() -> dict[str, Properties]:
    """YCSB's own workload files, by name: workloada to workloadf."""
    text = (resources.files("costof.cli.ycsb") / "core_workloads.toml").read_text()
    return tomllib.loads(text)


def read_properties(files: Sequence[str], assignments: Sequence[str], options: Mapping[str, str]) -> Properties:
    """All of a command line: later files win over earlier ones, `-p` over files, and of `-p` and the `options`
    (`-threads`, `-target`), which YCSB keeps as properties too, the options.

    Raises `YCSB_FILE_UNREADABLE` and `YCSB_NOT_A_PROPERTY`.
    """
    properties: Properties = {}
    for file in files:
        properties |= _of_file(file)
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name:
            # The text may be a password that lost its name.
            raise CostofError(Problem.YCSB_NOT_A_PROPERTY)
        properties[name] = value
    return properties | dict(options)


def _of_file(name: str) -> Properties:
    """A file, or one of the core workloads where there is no such file."""
    path = Path(name)
    built_in = core_workloads()
    if not path.exists() and path.name in built_in:
        return built_in[path.name]
    try:
        with path.open("rb") as file:
            return dict(javaproperties.load(file))
    except OSError as error:
        raise CostofError(Problem.YCSB_FILE_UNREADABLE, path=path, detail=error.strerror) from None
    except ValueError as error:
        raise CostofError(Problem.YCSB_FILE_UNREADABLE, path=path, detail=str(error)) from None
