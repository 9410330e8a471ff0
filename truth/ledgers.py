"""Archives of the campaign's ledgers (the raw records of its runs), from which later code can analyse them again."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from costof.model import Finite, Model
from costof.results.ledger import Ledger
from truth.rows import Row

LEDGERS = "ledgers"
ENDING = ".tar.gz"
#: The file in an archive that says which trial it is.
ABOUT = "trial.json"


class Measured(Model):
    """A trial that was measured: its columns, and the cost in ms that an endless run would measure."""

    about: Row
    long_run_ms: Finite


class Ledgers:
    """A folder with the archived ledger of each run, named after its trial. An archive has about 100 KB."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / LEDGERS

    def keep(self, measured: Measured, ledger: Ledger) -> None:
        """Archive a trial's ledger atomically."""
        (ledger.folder / ABOUT).write_text(measured.model_dump_json())
        path = self._path(measured.about.trial)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = shutil.make_archive(str(path.parent / ".temporary"), "gztar", ledger.folder)
        Path(temporary).replace(path)

    def has(self, trial: str) -> bool:
        return self._path(trial).is_file()

    def trials(self) -> list[str]:
        """Return the names of the trials that were measured, sorted."""
        files = self._folder.rglob(f"[!.]*{ENDING}")
        return sorted(file.relative_to(self._folder).as_posix().removesuffix(ENDING) for file in files)

    @contextmanager
    def opened(self, trial: str) -> Iterator[tuple[Measured, Ledger]]:
        """Yield an unpacked copy of a trial's ledger, which is deleted afterwards. Raises `NOT_A_RUN`."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.unpack_archive(self._path(trial), folder)
            yield Measured.model_validate_json((Path(folder) / ABOUT).read_bytes()), Ledger.open(Path(folder))

    def _path(self, trial: str) -> Path:
        return self._folder / f"{trial}{ENDING}"
