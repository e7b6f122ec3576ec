from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cleaner.cli.main import main
from cleaner.cli.setup import systemd
from cleaner.cli.setup.systemd import BY_NAME, CHECKOUT, FILES, placed


def install(root: Path, *options: str) -> int:
    command = () if "--command" in options else ("--command", "/opt/logcleaner/bin/logcleaner")
    return main(["systemd", "install", "--root", str(root), *command, *options])


def test_every_file_is_carried_and_no_other() -> None:
    lying = {path.relative_to(CHECKOUT).as_posix() for f in FILES for path in (CHECKOUT / f.folder).iterdir()}
    assert lying == {f"{file.folder}/{file.name}" for file in FILES}


@pytest.mark.parametrize("name", BY_NAME)
def test_print_gives_a_file_as_it_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["systemd", "print", name]) == 0
    assert capsys.readouterr().out == (CHECKOUT / BY_NAME[name].folder / name).read_text()


def test_print_gives_all_under_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["systemd", "print"]) == 0
    printed = capsys.readouterr().out
    assert [line[7:] for line in printed.splitlines() if line.startswith("# ==== ")] == list(BY_NAME)


def test_unknown_name_is_told_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["systemd", "print", "logcleaner.servic"]) == 2
    assert "logcleaner.service" in capsys.readouterr().err


def test_install_puts_every_file_in_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert install(tmp_path) == 0
    unit = tmp_path / "usr/local/lib/systemd/system/logcleaner.service"
    assert "ExecStart=/opt/logcleaner/bin/logcleaner run --config /etc/logcleaner.toml\n" in unit.read_text()
    assert (tmp_path / "etc/systemd/system/logcleaner-clean.service.d/log-dirs.conf").exists()
    assert capsys.readouterr().out.splitlines() == [str(path) for path, _ in placed(tmp_path, Path("/usr/local"))]


@pytest.mark.parametrize("is_there", [True, False])
def test_units_of_the_analysis_come_with_its_extra_only(tmp_path: Path, is_there: bool, monkeypatch, capsys) -> None:
    monkeypatch.setattr(systemd, "has_spark", lambda: is_there)
    assert install(tmp_path) == 0
    units = {path.name for path in (tmp_path / "usr/local/lib/systemd/system").iterdir()}
    assert {"logcleaner.service", "logcleaner-clean.timer"} <= units
    analysis = {"logcleaner-analyze.service", "logcleaner-analyze.timer"}
    assert units & analysis == (analysis if is_there else set())


def test_whether_the_extra_is_there_is_seen_without_loading_it(monkeypatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == "pyspark" or None)
    assert systemd.has_spark()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not systemd.has_spark()


def test_install_again_keeps_what_was_edited_and_renews_the_rest(tmp_path: Path, capsys) -> None:
    assert install(tmp_path, "--prefix", "/usr") == 0
    config, unit = tmp_path / "etc/logcleaner.toml", tmp_path / "usr/lib/systemd/system/logcleaner.service"
    for path in (config, unit):
        path.write_text("edited")
    capsys.readouterr()
    assert install(tmp_path, "--prefix", "/usr") == 0
    assert config.read_text() == "edited" != unit.read_text()
    assert f"{config}: exists, left as it is\n" in capsys.readouterr().out


@pytest.mark.parametrize("option", [("--prefix", "usr"), ("--command", "logcleaner")])
def test_relative_paths_are_refused(tmp_path: Path, option: tuple[str, str], capsys) -> None:
    assert install(tmp_path, *option) == 2
    assert f"{option[0]} = {option[1]}" in capsys.readouterr().err.replace("'", "")
    assert list(tmp_path.iterdir()) == []


def test_run_as_a_module_the_units_call_the_module(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setattr("sys.argv", ["/opt/site-packages/cleaner/__main__.py"])
    assert main(["systemd", "install", "--root", str(tmp_path)]) == 0
    unit = (tmp_path / "usr/local/lib/systemd/system/logcleaner.service").read_text()
    assert f"ExecStart={sys.executable} -m cleaner run" in unit


def test_command_that_the_units_could_not_see_is_warned_of(tmp_path: Path, capsys) -> None:
    assert install(tmp_path, "--command", "/root/.local/bin/logcleaner") == 0
    assert "ProtectHome=yes" in capsys.readouterr().err


def test_place_that_cannot_be_written_is_one_line(tmp_path: Path, capsys) -> None:
    (tmp_path / "usr").write_text("a file")
    assert install(tmp_path) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "cannot be written" in line


def test_an_installed_wheel_brings_its_own(tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "systemd").mkdir()
    (tmp_path / "systemd/logcleaner.toml").write_text("carried")
    monkeypatch.setattr(systemd, "PACKAGED", tmp_path)
    assert main(["systemd", "print", "logcleaner.toml"]) == 0
    assert capsys.readouterr().out == "carried"
