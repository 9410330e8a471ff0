"""Where studies come from: those of costof's own, and files of the user's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from costof.errors import CostofError, ErrorText, nearest
from costof.studies import read_content, study_file, study_names
from costof.study.schema import Study

_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")


def load_study(name: str) -> Study:
    """The study called `name`, or that of a file: whatever ends with '.toml' is a path.

    Raises `UNKNOWN_STUDY` (with the nearest name) or `BROKEN_STUDY`.
    """
    if name.endswith(".toml"):
        return _read(Path(name))
    known = study_names()
    if name not in known:
        raise CostofError(ErrorText.UNKNOWN_STUDY, name=name, nearest=nearest(name, known))
    return _read(study_file(name))


def _read(file: Path) -> Study:
    name = file.stem
    try:
        # What is called otherwise need not be read to be refused.
        content = read_content(file) if _NAME.fullmatch(name) else {}
    except OSError as error:
        detail = error.strerror or str(error)
    except ValueError as error:
        detail = str(error)
    else:
        return read_study(name, content, file)
    raise CostofError(ErrorText.BROKEN_STUDY, path=file, detail=detail)


def read_study(name: str, content: dict[str, Any], where: object = "that was asked for") -> Study:
    """What a study's file holds, as a study. Raises `BROKEN_STUDY`, which says `where` it is."""
    try:
        if not _NAME.fullmatch(name):
            raise ValueError("its name may have small letters, digits and hyphens")
        return Study.model_validate({"name": name, **content})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        detail = f"{place}: {first['msg']}" if place else first["msg"]
    except ValueError as error:
        detail = str(error)
    raise CostofError(ErrorText.BROKEN_STUDY, path=where, detail=detail)
