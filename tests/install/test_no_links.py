"""Filesystems without hard links, such as exFAT or cloud folders, where rocenv copies files and says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mini import Mini

# Python runs this at startup. Filesystems without hard links return EPERM, and have no reflinks either.
NO_LINKS = """
import errno, os
def link(source, target, **options):
    raise OSError(errno.EPERM, os.strerror(errno.EPERM), source)
os.link = link
"""


def test_create_copies_files_with_a_note_if_links_fail(mini: Mini, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(NO_LINKS)
    done = mini.create("demo", PYTHONPATH=str(tmp_path / "site"))
    assert "does not support hard links" in done.stderr
    placed = [
        path for path in (mini.prefix("demo") / "rocm").rglob("*") if path.is_file() and not path.is_symlink()
    ]
    assert placed
    assert all(path.stat().st_nlink == 1 for path in placed)
    assert mini.run("verify", "demo", "--upto", "files").returncode == 0


def test_a_home_in_onedrive_causes_a_warning(mini: Mini) -> None:
    done = mini.create("demo", OneDrive=str(mini.home.parent))
    assert "OneDrive would upload gigabytes" in done.stderr
    assert "setx ROCENV_HOME" in done.stderr
    quiet = mini.create("other", OneDrive=str(mini.home / "envs"))
    assert "cloud" not in quiet.stderr
