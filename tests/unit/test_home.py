"""The home: where it is, what it refuses, how long its socket paths get."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from records.errors import InvalidInputError, UnavailableError
from vrm import home as home_module
from vrm.home import Home, find_home


def test_variable_decides(tmp_path: Path) -> None:
    assert find_home({"VRM_HOME": str(tmp_path / "x")}, Path("/")).root == tmp_path / "x"
    assert find_home({"VRM_HOME": "y"}, tmp_path).root == tmp_path / "y"
    assert find_home({"VRM_HOME": "~/z"}, tmp_path).root == Path.home().resolve() / "z"


def test_default_is_beside_the_work(tmp_path: Path) -> None:
    assert find_home({}, tmp_path).root == tmp_path / ".vrm"
    assert find_home({"VRM_HOME": ""}, tmp_path).root == tmp_path / ".vrm"


def test_found_from_a_folder_below(open_path: Path) -> None:
    below = open_path / "a" / "b"
    below.mkdir(parents=True)
    find_home({}, open_path).create()
    assert find_home({}, below).root == open_path / ".vrm"


def test_unmarked_folder_above_is_not_taken(tmp_path: Path) -> None:
    below = tmp_path / "a"
    below.mkdir()
    (tmp_path / ".vrm").mkdir()
    assert find_home({}, below).root == below / ".vrm"


def test_create_twice(open_path: Path) -> None:
    home = Home(open_path / "h").create().create()
    folders = (home.postgres, home.artifacts, home.logs, home.ray, home.reports, home.postgres_sockets, home.ray_temp)
    assert all(folder.is_dir() for folder in folders)
    assert len(set(folders)) == len(folders)


def test_only_passage_for_others(open_path: Path) -> None:
    home = Home(open_path / "h").create()
    assert home.root.stat().st_mode & 0o066 == 0, "others may neither list nor write"
    assert home.ray.stat().st_mode & 0o077 == 0, "the token is private"


def test_foreign_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(InvalidInputError, match="holds something else"):
        Home(tmp_path).create()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["thesis.tex"]


def test_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(InvalidInputError, match="is a file"):
        Home(path).create()


def test_path_through_a_file_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match="VRM_HOME"):
        Home(tmp_path / "file" / "below").create()


@pytest.mark.parametrize("length", [1, 20, 60, 200])
def test_socket_paths_fit(length: int) -> None:
    home = Home(Path("/") / ("d" * length) / ".vrm")
    # Linux sockaddr_un holds 108 bytes with the final NUL, macOS 104.
    assert len(f"{home.postgres_sockets}/.s.PGSQL.5432") < 104
    assert len(f"{home.ray_temp}/session_2026-11-30_05-25-08_100386_4194304/sockets/plasma_store") < 104


def test_long_homes_do_not_share_sockets() -> None:
    one, two = Home(Path("/" + "d" * 200)), Home(Path("/" + "d" * 199 + "e"))
    assert one.postgres_sockets != two.postgres_sockets
    assert not one.postgres_sockets.is_relative_to(one.root)


def test_temporary_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_module, "_temporary_root", lambda: tmp_path)
    home = Home(tmp_path / ("d" * 200))
    taken = home.ray_temp.parent
    taken.mkdir()
    os.chmod(taken, 0o777)  # noqa: S103, PTH101 - a folder that anybody may write to is what is tested
    with pytest.raises(UnavailableError, match="Another user"):
        home.create()
