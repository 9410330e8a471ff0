"""Ledgers of the campaign's runs: with them a later analysis can judge the same runs anew."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from costof.results.ledger import Ledger

#: In a campaign's folder.
LEDGERS = "ledgers"
ENDING = ".tar.gz"


class Ledgers:
    """An archive of about 100 KB for each run, by its trial's name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / LEDGERS

    def keep(self, trial: str, ledger: Ledger) -> None:
        """Keep a ledger, whole or not at all; it replaces an earlier one, whose rows were lost."""
        path = self._path(trial)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = shutil.make_archive(str(path.parent / ".aside"), "gztar", ledger.folder)
        Path(aside).replace(path)

    def has(self, trial: str) -> bool:
        return self._path(trial).is_file()

    @contextmanager
    def opened(self, trial: str) -> Iterator[Ledger]:
        """Open a copy, which exists as long as the context. Raises `NOT_A_RUN`."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.unpack_archive(self._path(trial), folder)
            yield Ledger.open(Path(folder))

    def _path(self, trial: str) -> Path:
        return self._folder / f"{trial}{ENDING}"
