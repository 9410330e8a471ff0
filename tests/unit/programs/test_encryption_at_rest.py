"""Encryption at rest: the search for a known text (canary) in files, and key files that a server must not use."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from costof.errors import CostofError, ErrorText
from costof.lab.lab import Lab
from costof.programs.mariadb.encryption_at_rest import (
    FILES,
    EncryptionAtRest,
    EncryptionConfiguration,
    contradiction,
    find_plugin,
)
from costof.programs.postgres import file_system

EVERYWHERE = ["data/costof/canaries.ibd", "data/ib_logfile0", "temporary/#7 (deleted) 31", "data/binlog.000001"]


def test_stored_value_must_be_readable_only_in_unencrypted_files() -> None:
    assert contradiction([], EVERYWHERE) is None
    assert contradiction(list(FILES), []) is None
    for store, name in zip(FILES, EVERYWHERE, strict=True):
        others = [each for each in EVERYWHERE if each != name]
        assert contradiction([store], others) is None
        assert contradiction([store], EVERYWHERE) == (
            f"the canary is readable in {name}, although the server encrypts its {store}"
        )
        assert f"the canary is not in the {store}" in (contradiction([], others) or "")
    assert "readable in data/costof/db.opt, which must not hold" in (contradiction(FILES, ["data/costof/db.opt"]) or "")


def test_key_file_that_is_missing_or_readable_by_others_is_reported(tmp_path: Path) -> None:
    server: Any = SimpleNamespace(folder=tmp_path, binary=tmp_path / "bin/mariadbd")
    at_rest = EncryptionAtRest(server, EncryptionConfiguration(encrypt=["redo log"]))
    with pytest.raises(CostofError, match=r"the key file \S+keys.txt: no such file or directory; set TMPDIR") as caught:
        at_rest.early_options()
    assert caught.value.message is ErrorText.KEY_FILE_UNUSABLE
    at_rest.prepare()
    (key_file,) = tmp_path.iterdir()
    assert key_file.stat().st_mode & 0o777 == 0o600
    key_file.chmod(0o640)
    with pytest.raises(CostofError, match="its mode is 0640, so other users can read the key; set TMPDIR"):
        at_rest.early_options()


def test_missing_encryption_plugin_is_reported_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COSTOF_FILE_KEY_MANAGEMENT", str(tmp_path / "no.so"))
    with pytest.raises(CostofError, match=r"needs file_key_management .*apt-get install mariadb-server"):
        find_plugin(tmp_path)


def test_missing_fuse_device_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_system, "DEVICE", tmp_path / "fuse")
    place = SimpleNamespace(lab=Lab())
    server: Any = SimpleNamespace(place=place, name="postgres", folder=tmp_path, data=tmp_path / "data")
    configuration = file_system.FileSystemConfiguration(file_system="gocryptfs")
    storage = file_system.FileSystem(server, configuration)
    with pytest.raises(
        CostofError, match=r"gocryptfs needs .*fuse, but it does not exist; run costof as root"
    ) as caught:
        storage.prepare()
    assert caught.value.message is ErrorText.FUSE_MISSING
