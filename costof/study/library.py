"""Loading of studies: the built-in ones by name, and the user's own by path."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from costof.errors import CostofError, ErrorText, nearest
from costof.model import first_error
from costof.studies import read_content, study_file, study_names
from costof.study.schema import Study

_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")


def load_study(name: str) -> Study:
    """Return the study in the file `name` if `name` ends with '.toml', or else the built-in study `name`.

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
        # Do not read a file with an invalid name: `read_study` rejects the name, whatever the content.
        content = read_content(file) if _NAME.fullmatch(name) else {}
    except OSError as error:
        detail = error.strerror or str(error)
    except ValueError as error:
        detail = str(error)
    else:
        return read_study(name, content, file)
    raise CostofError(ErrorText.BROKEN_STUDY, path=file, detail=detail)


def read_study(name: str, content: dict[str, Any], path: object = "of this run") -> Study:
    """Return the study in a file's content. Raises `BROKEN_STUDY` with the file's `path`."""
    try:
        if not _NAME.fullmatch(name):
            raise ValueError("its name may consist only of lower-case letters, digits and hyphens")
        return Study.model_validate({"name": name, **content})
    except ValidationError as error:
        detail = first_error(error)
    except ValueError as error:
        detail = str(error)
    raise CostofError(ErrorText.BROKEN_STUDY, path=path, detail=detail)
