"""When a configuration file counts as changed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from config.document import ConfigurationFile


def settled(file: ConfigurationFile) -> bool:
    """Whether two looks notice a change."""
    assert not file.has_changed(), "its writer may not be done"
    return file.has_changed()


def test_a_written_file_has_changed_until_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "kubedelta.yaml"
    path.write_text("cluster: {}")
    file = ConfigurationFile(path)
    assert not settled(file)
    path.write_text("cluster: {name: a}")
    assert settled(file)
    assert file.has_changed()
    file.read()
    assert not settled(file)
    assert hashlib.sha256(path.read_bytes()).hexdigest().startswith(file.digest)
    assert len(file.digest) == 8


def test_a_file_that_is_being_written_has_not_changed_yet(tmp_path: Path) -> None:
    path = tmp_path / "kubedelta.yaml"
    path.write_text("")
    file = ConfigurationFile(path)
    for size in range(1, 5):
        path.write_text("x" * size)
        assert not file.has_changed()
    assert file.has_changed()


def test_the_kubelet_replaces_a_link_in_front_of_the_file(tmp_path: Path) -> None:
    """As it mounts a ConfigMap: the file is a link to ..data/file, and ..data a link that is renamed over."""
    for version in ("..1", "..2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "kubedelta.yaml").write_text("cluster: {}")
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "kubedelta.yaml").symlink_to("..data/kubedelta.yaml")
    file = ConfigurationFile(tmp_path / "kubedelta.yaml")
    assert not settled(file)
    (tmp_path / "..data_tmp").symlink_to("..2")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    assert settled(file)


def test_a_removed_file_has_changed_once(tmp_path: Path) -> None:
    path = tmp_path / "kubedelta.yaml"
    path.write_text("cluster: {}")
    file = ConfigurationFile(path)
    path.unlink()
    assert settled(file)
    file.read()
    assert file.digest == ""
    assert not settled(file)


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    """It may be read once only, by the start; and it could block."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    file = ConfigurationFile(path)
    assert file.digest == ""
    assert not settled(file)
