"""The copyright file of the Debian package: what is told of a licence, and what may not be shipped without one."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
GPL = """
                    GNU GENERAL PUBLIC LICENSE
                       Version 3, 29 June 2007

 0. Definitions.

                     END OF TERMS AND CONDITIONS
"""
APPENDIX = """
            How to Apply These Terms to Your New Programs

Public License instead of this License.  But first, please read
<http://www.gnu.org/philosophy/why-not-lgpl.html>.
"""
POINTER = "(The text of this licence is /usr/share/common-licenses/GPL-3.)"


@pytest.fixture(scope="module")
def licences() -> ModuleType:
    spec = importlib.util.spec_from_file_location("licences", ROOT / "packaging/licences.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """With one package that states its licence, carries its text and says what is compiled into it."""
    info = tmp_path / "some_thing-1.2.dist-info"
    (info / "sboms").mkdir(parents=True)
    (info / "licenses").mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.4\nName: some-thing\nVersion: 1.2\nAuthor: A. Author\nLicense-Expression: MIT\n"
    )
    (info / "licenses/LICENSE.txt").write_text("Copyright (c) A. Author\n\nPermission is hereby granted\n")
    crate = {"name": "crate", "version": "0.1", "licenses": [{"expression": "MIT OR Apache-2.0"}]}
    (info / "sboms/crate.cyclonedx.json").write_text(json.dumps({"components": [crate, {"name": "libz"}]}))
    files = [path.relative_to(tmp_path) for path in info.rglob("*") if path.is_file()]
    (info / "RECORD").write_text("".join(f"{path},,\n" for path in files))
    return tmp_path


def written(licences: ModuleType, site: Path) -> str:
    return str(licences.copyright_file((ROOT / "LICENSE").read_text(), site))


def test_a_package_is_told_with_its_licence_text_and_what_is_compiled_into_it(licences: ModuleType, site: Path) -> None:
    told = written(licences, site)
    assert "/usr/share/common-licenses/Apache-2.0" in told
    assert (
        "\nsome-thing 1.2\nLicence: MIT\nAuthors: A. Author\nCompiled into it:\n  crate 0.1 (MIT OR Apache-2.0)\n"
        in told
    )
    assert "  libz  (no licence stated)\n" in told
    assert "\nCopyright (c) A. Author\n\nPermission is hereby granted\n" in told


@pytest.mark.parametrize("lost", ["License-Expression: MIT\n", "licenses/LICENSE.txt,,\n"])
def test_a_package_without_a_licence_or_its_text_cannot_be_shipped(licences: ModuleType, site: Path, lost: str) -> None:
    for name in ("METADATA", "RECORD"):
        file = site / "some_thing-1.2.dist-info" / name
        kept = [line for line in file.read_text().splitlines(keepends=True) if not line.endswith(lost)]
        file.write_text("".join(kept))
    with pytest.raises(SystemExit, match=r"some-thing 1\.2 (tells no licence|carries no text)"):
        written(licences, site)


@pytest.mark.parametrize("appendix", ["", APPENDIX])
def test_a_text_that_every_debian_has_is_pointed_to_and_the_rest_stays(licences: ModuleType, appendix: str) -> None:
    text = f"Name: libgfortran\nCopyright (C) FSF\n{GPL}{appendix}\nName: libquadmath\nLicense: LGPL-2.1-or-later\n"
    shortened = licences.shortened(text)
    assert shortened.split() == ["Name:", "libgfortran", "Copyright", "(C)", "FSF", *POINTER.split(), "Name:",
                                 "libquadmath", "License:", "LGPL-2.1-or-later"]  # fmt: skip


def test_two_licences_in_one_text_are_both_pointed_to(licences: ModuleType) -> None:
    shortened = licences.shortened(f"first\n{GPL}between\n{GPL}{APPENDIX}last\n")
    assert shortened.split() == ["first", *POINTER.split(), "between", *POINTER.split(), "last"]
