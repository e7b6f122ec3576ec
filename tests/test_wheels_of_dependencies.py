"""Who installs the wheel of logcleaner needs no compiler, but for lz4 on musl: what it needs has wheels, too."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

PACKAGES = tomllib.loads((Path(__file__).parent.parent / "uv.lock").read_text())["package"]
WITHOUT_ON_MUSL = {"lz4", "watchdog"}
"""pip compiles lz4 there, as docs/dependencies.md says; watchdog is Python alone on Linux."""
TAGS = re.compile(r"-(?P<python>[^-]+)-(?P<abi>[^-]+)-(?P<platform>[^-]+)\.whl$")


def needed() -> set[str]:
    """Return the names of all packages that an installation without extras can bring, whatever the platform."""
    names: set[str] = set()
    ahead = ["logcleaner"]
    while ahead:
        name = ahead.pop()
        if name not in names:
            names.add(name)
            found = [package for package in PACKAGES if package["name"] == name]
            ahead += [dependency["name"] for package in found for dependency in package.get("dependencies", [])]
    return names - {"logcleaner"}


def fits(url: str, minor: int, platform: str) -> bool:
    """Return whether pip takes a wheel on CPython 3.``minor`` and a platform."""
    tags = TAGS.search(url)
    assert tags is not None, url
    is_here = tags["platform"] == "any" or all(part in tags["platform"] for part in platform.split())
    versions = [int(found) for found in re.findall(r"cp3(\d+)", tags["python"])]
    stable = tags["abi"] == "abi3" and any(version <= minor for version in versions)
    return is_here and ("py3" in tags["python"] or stable or (minor in versions and tags["abi"] == f"cp3{minor}"))


@pytest.mark.parametrize("platform", ["manylinux x86_64", "manylinux aarch64", "musllinux x86_64", "musllinux aarch64"])
@pytest.mark.parametrize("minor", [11, 12, 13])
def test_every_dependency_has_a_wheel(minor: int, platform: str) -> None:
    names = needed()
    assert {"numpy", "zstandard", "pydantic-core"} <= names
    without = {
        name for name in names
        if not any(
            fits(wheel["url"], minor, platform)
            for package in PACKAGES if package["name"] == name for wheel in package.get("wheels", [])
        )
    }  # fmt: skip
    assert without == (WITHOUT_ON_MUSL if "musl" in platform else set())


def test_a_wheel_of_another_python_or_platform_does_not_count() -> None:
    assert fits("https://x/numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.whl", 11, "manylinux x86_64")
    assert not fits("https://x/numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.whl", 12, "manylinux x86_64")
    assert not fits("https://x/numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.whl", 11, "musllinux x86_64")
    assert not fits("https://x/numpy-2.4.6-cp313-cp313t-manylinux_2_27_x86_64.whl", 13, "manylinux x86_64")
    assert fits("https://x/cramjam-2.14.0-cp38-abi3-musllinux_1_2_aarch64.whl", 13, "musllinux aarch64")
    assert fits("https://x/rich-15.0.0-py3-none-any.whl", 12, "musllinux aarch64")
