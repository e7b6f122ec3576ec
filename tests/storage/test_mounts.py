"""Which file system a path lies on, by crafted lines of ``/proc/self/mountinfo``."""

from pathlib import Path, PurePath

import pytest

from storage.lock import MOUNT_INFO, is_read_only, shared_type, type_of

MOUNTS = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:21 / /proc rw,nosuid shared:5 - proc proc rw
30 22 0:40 / /srv rw master:2 propagate_from:3 - autofs systemd-1 rw
31 30 0:41 /export /srv rw,relatime - nfs4 filer:/export rw,vers=4.2
32 31 8:17 / /srv/kafka/local rw shared:9 - xfs /dev/sdb1 rw
33 22 0:42 / /mnt/with\040blank\134s rw - fuse.sshfs host:/ rw
34 22 0:43 / /mnt/- rw - cifs //host/share rw
35 22 0:44 / /data rw - tmpfs - rw
36 22 0:45 / /cut rw
""".strip()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", "ext4"),
        ("/var/lib/kafka/data", "ext4"),
        ("/srv", "nfs4"),
        ("/srv/kafka/data", "nfs4"),
        ("/srv/kafka/local/data", "xfs"),
        ("/srvx", "ext4"),
        ("/mnt/with blank\\s/data", "fuse.sshfs"),
        ("/mnt/-", "cifs"),
        ("/data/x", "tmpfs"),
        ("/cut", "ext4"),
    ],
)
def test_deepest_mount_that_holds_the_path_tells_and_of_two_the_later(path, expected):
    assert type_of(PurePath(path), MOUNTS) == expected


def test_path_of_no_mount_has_no_type():
    assert type_of(PurePath("/data"), "") is None


@pytest.mark.parametrize(
    ("path", "expected"), [("/srv/kafka", "nfs4"), ("/mnt/-", "cifs"), ("/data", None), ("/var", None)]
)
def test_only_what_other_machines_share_is_named(tmp_path, path, expected):
    (tmp_path / "mountinfo").write_text(MOUNTS)
    assert shared_type(Path(path), tmp_path / "mountinfo") == expected


def test_without_the_list_of_mounts_nothing_is_known_to_be_shared(tmp_path):
    assert shared_type(tmp_path, tmp_path / "mountinfo") is None


def test_every_mount_of_this_machine_has_a_type():
    points = [PurePath("/"), PurePath("/proc")]
    assert all(type_of(point, MOUNT_INFO.read_text()) for point in points)


@pytest.mark.parametrize(
    ("mount", "options", "expected"),
    [
        ("ro,relatime", "ro,errors=remount-ro", True),  # remounted, by a person or by errors of the disk
        ("ro,relatime", "rw,errors=remount-ro", False),  # a volume that one container may only read
        ("rw,relatime", "rw", False),
    ],
)
def test_a_file_system_is_read_only_by_its_own_options(
    tmp_path: Path, mount: str, options: str, expected: bool
) -> None:
    lines = f"24 1 8:1 / / rw - ext4 /dev/sda1 rw\n25 24 8:2 / {tmp_path} {mount} shared:2 - ext4 /dev/sdb1 {options}\n"
    (tmp_path / "mountinfo").write_text(lines)
    assert is_read_only(tmp_path / "data", tmp_path / "mountinfo") == expected
    assert not is_read_only(tmp_path, tmp_path / "missing")
