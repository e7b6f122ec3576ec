"""The scripts of the Debian package: what an upgrade, a removal, and what fails in between do to the service.

Real dpkg runs them in a chroot, with packages that hold nothing but the scripts, the units and one module.
``systemctl`` is a stand-in that notes each change of a unit, with the version whose files are there at that moment.
Debian's own ``deb-systemd-invoke`` calls it.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.debian_chroots import Chroot, a_debian, needed

ROOT = Path(__file__).parent.parent
DAEMON, TIMER, CLEAN = "logcleaner.service", "logcleaner-clean.timer", "logcleaner-clean.service"
MODULE = Path("opt/logcleaner/lib/python3/site-packages/module.py")
SYSTEMCTL = """\
#!/bin/sh
# /systemd/enabled/UNIT and /systemd/state/UNIT are what systemd knows; /systemd/log is what was done to a unit here
case $1 in --root=*) exit ;; esac
words=
for word in "$@"; do case $word in -*) ;; *) words="$words $word" ;; esac; done
set -- $words
action=$1
shift
for unit in "$@"; do
    state=/systemd/state/$unit
    case $action in
        show) cat "$state" 2> /dev/null || echo inactive; continue ;;
        is-active) grep -q '^active$' "$state" 2> /dev/null || exit 3; continue ;;
        is-enabled) if [ -e "/systemd/enabled/$unit" ]; then echo enabled; else echo disabled; exit 1; fi; continue ;;
        disable) rm -f "/systemd/enabled/$unit" ;;
        stop) [ -e "$state" ] || continue; rm "$state" ;;
        try-restart) [ -e "$state" ] || continue ;;
        start) [ ! -e "$state" ] || continue; echo active > "$state" ;;
        *) echo "unknown: $action" >&2; exit 1 ;;
    esac
    version=$(sed -n 's/^version = //p' /opt/logcleaner/lib/python3/site-packages/module.py 2> /dev/null)
    echo "$action $unit $version" >> /systemd/log
done
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """A Debian with systemd, as far as the scripts can tell, and where packages are made for it."""

    debian: Chroot
    scratch: Path

    @property
    def systemd(self) -> Path:
        return self.debian.root / "systemd"

    def has(self, unit: str, *, state: str = "", is_enabled: bool = False) -> None:
        if state:
            (self.systemd / "state" / unit).write_text(f"{state}\n")
        if is_enabled:
            (self.systemd / "enabled" / unit).touch()

    def done(self) -> list[str]:
        """Return what was done to units since the last call."""
        log = self.systemd / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return [line.strip() for line in lines]

    def package(self, version: str, **scripts: str) -> str:
        """Make a package with the real scripts, but for those given here, and return its path in the chroot."""
        stage = self.scratch / version
        for directory in (
            "DEBIAN",
            "opt/logcleaner/bin",
            MODULE.parent,
            "usr/lib/systemd/system",
            "usr/lib/sysusers.d",
        ):
            (stage / directory).mkdir(parents=True)
        (stage / "opt/logcleaner/bin/python").symlink_to("/usr/bin/python3")
        (stage / MODULE).write_text(f"version = {version}\n")
        for unit in (DAEMON, TIMER, CLEAN):
            shutil.copy(ROOT / "systemd" / unit, stage / "usr/lib/systemd/system")
        shutil.copy(ROOT / "systemd/logcleaner.sysusers.conf", stage / "usr/lib/sysusers.d/logcleaner.conf")
        (stage / "DEBIAN/control").write_text(
            f"Package: logcleaner\nVersion: {version}\nArchitecture: all\nMaintainer: A <a@example.org>\n"
            "Description: scripts of the package\n"
        )
        real = {name: (ROOT / "packaging" / name).read_text() for name in ("postinst", "prerm", "postrm")}
        for name, text in (real | scripts).items():
            (stage / "DEBIAN" / name).write_text(text)
            (stage / "DEBIAN" / name).chmod(0o755)
        file = self.debian.root / f"logcleaner-{version}.deb"
        needed("dpkg-deb", "--root-owner-group", "-Znone", "--build", stage, file)
        return f"/{file.name}"

    def install(self, package: str) -> str:
        """Install or upgrade, and return what a person reads."""
        done = self.debian.run("dpkg", "--force-unsafe-io", "--install", package)
        assert done.returncode == 0, done.stderr
        return done.stderr

    def dpkg(self, *arguments: str) -> str:
        return self.debian.ok("dpkg", "--force-unsafe-io", *arguments)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Without a policy-rc.d, which images of containers have, so that nothing starts in them."""
    with a_debian() as debian:
        (debian.root / "usr/sbin/policy-rc.d").unlink(missing_ok=True)
        for directory in ("systemd/state", "systemd/enabled", "run/systemd/system"):
            (debian.root / directory).mkdir(parents=True, exist_ok=True)
        systemctl = debian.root / "usr/bin/systemctl"
        systemctl.unlink(missing_ok=True)
        systemctl.write_text(SYSTEMCTL)
        systemctl.chmod(0o755)
        yield Machine(debian, tmp_path)


def test_an_install_starts_and_enables_nothing(machine: Machine) -> None:
    machine.install(machine.package("1.0"))
    assert machine.done() == []
    assert (machine.debian.root / "etc/passwd").read_text().count("\nlogcleaner:") == 1


def test_an_upgrade_stops_the_service_before_its_files_change_and_starts_it_with_the_new_ones(machine: Machine) -> None:
    machine.install(machine.package("1.0"))
    machine.has(DAEMON, state="active", is_enabled=True)
    machine.has(TIMER, state="active", is_enabled=True)
    machine.install(machine.package("1.1"))
    assert machine.done() == [
        f"stop {TIMER} 1.0", f"stop {DAEMON} 1.0", f"start {TIMER} 1.1", f"start {DAEMON} 1.1",
    ]  # fmt: skip
    machine.install(machine.package("1.2"))
    assert machine.done()[-1] == f"start {DAEMON} 1.2"


@pytest.mark.parametrize("is_enabled", [True, False])
def test_an_upgrade_never_starts_what_did_not_run(machine: Machine, is_enabled: bool) -> None:
    machine.install(machine.package("1.0"))
    for unit in (DAEMON, TIMER):
        machine.has(unit, is_enabled=is_enabled)
    machine.install(machine.package("1.1"))
    assert machine.done() == []


def test_a_daemon_that_waits_for_its_restart_counts_as_running(machine: Machine) -> None:
    """systemd starts the daemon again after a failure; meanwhile the unit is ``activating``."""
    machine.install(machine.package("1.0"))
    machine.has(DAEMON, state="activating", is_enabled=True)
    machine.install(machine.package("1.1"))
    assert machine.done() == [f"stop {DAEMON} 1.0", f"start {DAEMON} 1.1"]


def test_a_disabled_daemon_that_runs_is_stopped_and_a_line_tells_that_it_is_not_started(machine: Machine) -> None:
    machine.install(machine.package("1.0"))
    machine.has(DAEMON, state="active")
    told = machine.install(machine.package("1.1"))
    assert machine.done() == [f"stop {DAEMON} 1.0"]
    assert f"{DAEMON} is a disabled or a static unit, not starting it" in told


def test_a_clean_under_way_is_stopped_and_told_and_left_to_its_timer(machine: Machine) -> None:
    machine.install(machine.package("1.0"))
    machine.has(CLEAN, state="activating")
    machine.has(TIMER, state="active", is_enabled=True)
    told = machine.install(machine.package("1.1"))
    assert machine.done() == [f"stop {TIMER} 1.0", f"stop {CLEAN} 1.0", f"start {TIMER} 1.1"]
    assert f"{CLEAN} is stopped" in told


def test_what_starts_while_the_files_change_is_started_again(machine: Machine) -> None:
    """As ``10-make-way-for-kafka.conf`` starts the daemon when a broker stops."""
    machine.install(machine.package("1.0"))
    machine.has(DAEMON, state="active", is_enabled=True)
    machine.install(machine.package("1.1", preinst=f"#!/bin/sh\nsystemctl start {DAEMON}\n"))
    assert machine.done() == [f"stop {DAEMON} 1.0", f"start {DAEMON} 1.0", f"try-restart {DAEMON} 1.1"]


def test_what_an_older_package_left_running_is_started_again(machine: Machine) -> None:
    machine.install(machine.package("1.0", prerm="#!/bin/sh\n"))
    machine.has(DAEMON, state="active", is_enabled=True)
    machine.has(CLEAN, state="activating")
    machine.install(machine.package("1.1"))
    assert machine.done() == [f"stop {CLEAN} 1.1", f"try-restart {DAEMON} 1.1"]


def test_after_an_upgrade_that_fails_the_old_version_goes_on(machine: Machine) -> None:
    machine.install(machine.package("1.0"))
    machine.has(DAEMON, state="active", is_enabled=True)
    newer = machine.package("1.1", preinst="#!/bin/sh\nexit 1\n")
    assert machine.debian.run("dpkg", "--force-unsafe-io", "--install", newer).returncode == 1
    assert machine.done() == [f"stop {DAEMON} 1.0", f"start {DAEMON} 1.0"]
    assert not is_slow(machine)


def test_a_service_that_cannot_start_does_not_fail_the_upgrade(machine: Machine) -> None:
    machine.install(machine.package("1.0"))
    machine.has(DAEMON, state="active", is_enabled=True)
    systemctl = machine.debian.root / "usr/bin/systemctl"
    systemctl.write_text(systemctl.read_text().replace("start) [", 'start) echo "it failed" >&2; exit 1; ['))
    assert "it failed" in machine.install(machine.package("1.1"))
    assert machine.done() == [f"stop {DAEMON} 1.0"]


def test_a_machine_whose_policy_forbids_it_is_left_as_it_is(machine: Machine) -> None:
    machine.install(machine.package("1.0"))
    machine.has(DAEMON, state="active", is_enabled=True)
    policy = machine.debian.root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    machine.install(machine.package("1.1"))
    assert machine.done() == []


@pytest.mark.parametrize("is_purge", [False, True])
def test_a_removal_stops_and_disables_everything_for_good(machine: Machine, is_purge: bool) -> None:
    machine.install(machine.package("1.0"))
    machine.has(DAEMON, state="active", is_enabled=True)
    machine.has(TIMER, state="active", is_enabled=True)
    machine.has(CLEAN, state="activating")
    cached = machine.debian.root / "var/cache/logcleaner/keys"
    cached.mkdir(parents=True)
    machine.dpkg("--purge" if is_purge else "--remove", "logcleaner")
    done = machine.done()
    assert done[:3] == [f"stop {TIMER} 1.0", f"stop {CLEAN} 1.0", f"stop {DAEMON} 1.0"]
    assert {f"disable {DAEMON}", f"disable {TIMER}"} == set(done[3:])
    assert cached.exists() is not is_purge
    machine.install("/logcleaner-1.0.deb")
    assert machine.done() == []


def test_a_removal_leaves_no_link_of_an_enabled_unit(machine: Machine) -> None:
    """With the real systemctl, which works on the links without a systemd that runs."""
    systemctl = machine.debian.root / "usr/bin/systemctl"
    real = shutil.which("systemctl")
    if real is None:
        pytest.skip("NOT RUN: there is no systemctl here")
    shutil.copy(real, systemctl)
    (machine.debian.root / "run/systemd/system").rmdir()
    machine.install(machine.package("1.0"))
    machine.debian.ok("systemctl", "enable", DAEMON, TIMER)
    links = [machine.debian.root / "etc/systemd/system" / wants for wants in (
        f"multi-user.target.wants/{DAEMON}", f"timers.target.wants/{TIMER}",
    )]  # fmt: skip
    assert all(link.is_symlink() for link in links)
    machine.dpkg("--remove", "logcleaner")
    assert not any(link.is_symlink() for link in links)


def test_without_systemd_nothing_is_called_and_all_works(machine: Machine) -> None:
    (machine.debian.root / "run/systemd/system").rmdir()
    machine.has(DAEMON, state="active", is_enabled=True)
    machine.install(machine.package("1.0"))
    machine.install(machine.package("1.1"))
    assert machine.done() == []
    (machine.debian.root / "usr/bin/systemctl").unlink()
    machine.dpkg("--purge", "logcleaner")


def is_slow(machine: Machine) -> bool:
    """Return whether Python would compile the module at each start: it has no bytecode of exactly this file."""
    module = machine.debian.root / MODULE
    minor = machine.debian.ok("python3", "-c", "import sys; print(sys.implementation.cache_tag)").strip()
    bytecode = module.parent / "__pycache__" / f"module.{minor}.pyc"
    if not bytecode.exists():
        return True
    about = module.stat()
    # the header that PEP 552 describes: a magic number, flags, and time and size of the source
    return struct.unpack("<4xIII", bytecode.read_bytes()[:16]) != (0, int(about.st_mtime), about.st_size)


def test_bytecode_is_made_by_the_install_is_that_of_the_files_and_goes_with_them(machine: Machine) -> None:
    machine.install(machine.package("1.0"))
    assert not is_slow(machine)
    machine.install(machine.package("1.1"))
    assert not is_slow(machine)
    machine.dpkg("--remove", "logcleaner")
    assert not (machine.debian.root / "opt/logcleaner").exists()


def test_a_disk_without_space_for_bytecode_does_not_fail_the_install_and_is_told(machine: Machine) -> None:
    """The tool is installed on machines whose disk is full."""
    package = machine.package("1.0")
    (machine.debian.root / MODULE.parent).mkdir(parents=True)
    (machine.debian.root / MODULE.parent / "__pycache__").write_text("no directory can be made here")
    assert "starts more slowly" in machine.install(package)


def test_into_another_root_only_files_are_written(machine: Machine) -> None:
    """As mmdebstrap does: the scripts run outside the root that dpkg fills."""
    package, root = machine.package("1.0"), machine.debian.root / "other"
    for directory in ("var/lib/dpkg", "etc"):
        (root / directory).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    into = ("--root=/other", "--force-script-chrootless", "--force-not-root")
    machine.has(DAEMON, state="active", is_enabled=True)
    machine.dpkg(*into, "--install", package)
    assert (root / MODULE).exists()
    assert "\nlogcleaner:" in f"\n{(root / 'etc/passwd').read_text()}"
    machine.dpkg(*into, "--purge", "logcleaner")
    assert not (root / "opt/logcleaner").exists()
    assert machine.done() == []
