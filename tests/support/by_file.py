"""What `make test` prints as it goes: a line for each file when its tests are done, and each failure at once."""

from __future__ import annotations

from collections import Counter

import pytest

OPTION = "--by-file"


class ByFile:
    """A pytest plugin, for a run in one process or in several (pytest-xdist)."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._left: Counter[str] = Counter()
        self._outcomes: dict[str, Counter[str]] = {}
        self._seconds: Counter[str] = Counter()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._expect([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        # Each worker collects the same.
        if not self._left:
            self._expect(ids)

    def _expect(self, ids: list[str]) -> None:
        self._left.update(_file(each) for each in ids)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        if hasattr(report, "wasxfail"):
            return None
        # No letter: the file's line tells, or the failure's own.
        if report.when == "call" or report.skipped:
            return report.outcome, "", report.outcome.upper() if report.failed else ""
        return ("error", "", "ERROR") if report.failed else ("", "", "")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = _file(report.nodeid)
        self._seconds[file] += report.duration  # type: ignore[assignment]
        if report.failed:
            self._say(f"FAILED {report.nodeid} ({report.when})")
        if report.when == "call" or not report.passed:
            self._outcomes.setdefault(file, Counter())[report.outcome] += 1
        if report.when == "teardown":
            self._left[file] -= 1
            if not self._left[file]:
                told = ", ".join(f"{number} {outcome}" for outcome, number in self._outcomes[file].items())
                self._say(f"{file}: {told} in {self._seconds[file]:.0f} s")

    def _say(self, line: str) -> None:
        writer = self._config.get_terminal_writer()
        writer.line(line)
        writer.flush()


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]
