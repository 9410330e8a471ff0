"""Archives of the campaign's ledgers (the raw records of its runs), from which later code can analyse them again."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from costof.results.ledger import Ledger

LEDGERS = "ledgers"
ENDING = ".tar.gz"


class Ledgers:
    """A folder with the archived ledger of each run, named after its trial. An archive has about 100 KB."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / LEDGERS

    def keep(self, trial: str, ledger: Ledger) -> None:
        """Archive a trial's ledger atomically.

        If the trial was run again because its rows were lost, the new ledger replaces the old one.
        """
        path = self._path(trial)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = shutil.make_archive(str(path.parent / ".temporary"), "gztar", ledger.folder)
        Path(temporary).replace(path)

    def has(self, trial: str) -> bool:
        return self._path(trial).is_file()

    @contextmanager
    def opened(self, trial: str) -> Iterator[Ledger]:
        """Yield an unpacked copy of a trial's ledger. The copy is deleted afterwards. Raises `NOT_A_RUN`."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.unpack_archive(self._path(trial), folder)
            yield Ledger.open(Path(folder))

    def _path(self, trial: str) -> Path:
        return self._folder / f"{trial}{ENDING}"
