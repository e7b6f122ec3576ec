"""The browser of the tests is the same whatever is installed beside it."""

from __future__ import annotations

import os
import re
import subprocess

from tests.browsers import PROGRAM, libraries, unpacked

OF_THE_MACHINE = re.compile(r"(lib(c|m|dl|rt|pthread|resolv|gcc_s)|ld-linux-[\w-]+)\.so\.\d+")


def test_it_takes_its_data_and_every_library_but_the_c_library_from_what_was_fetched() -> None:
    root = unpacked()
    program = root / PROGRAM
    assert program.with_name("icudtl.dat").is_file()
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries(root)}
    linked = subprocess.run(["ldd", program], check=True, capture_output=True, text=True, env=environment).stdout
    found = re.findall(r"^\s+(\S+) => (\S+)", linked, re.MULTILINE)
    assert len(found) > 30
    assert [one for one in found if not OF_THE_MACHINE.fullmatch(one[0]) and not one[1].startswith(f"{root}/")] == []
