"""The units as systemd sees them: it verifies them, rates them, and every system call of ours is one that they allow.

Needs systemd-analyze and strace (Debian: systemd, strace); what cannot run is skipped aloud.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cleaner.cli.main import main
from cleaner.cli.setup.systemd import BY_NAME
from cleaner.config.settings import read_settings

ROOT = Path(__file__).parent.parent
UNITS = ROOT / "systemd"
SERVICES = ("logcleaner.service", "logcleaner-clean.service", "logcleaner-analyze.service")
TIMERS = ("logcleaner-clean.timer", "logcleaner-analyze.timer")
EXPOSURE_MAX = 2.0


def run(*command: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, check=False, capture_output=True, text=True, **options)  # type: ignore[call-overload, no-any-return]
    except FileNotFoundError as error:
        pytest.skip(f"NOT RUN: there is no {error.filename} here")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the units lie once they are installed with the extra, calling a program that is there."""
    root = tmp_path_factory.mktemp("root")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("cleaner.cli.setup.systemd.has_spark", lambda: True)
        assert main(["systemd", "install", "--root", str(root), "--prefix", "/usr", "--command", sys.executable]) == 0
    return root / "usr/lib/systemd/system"


@pytest.mark.parametrize("name", [*SERVICES, *TIMERS])
def test_systemd_finds_no_fault(installed: Path, name: str) -> None:
    done = run("systemd-analyze", "verify", "--man=no", installed / name)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_systemd_finds_a_fault_where_there_is_one(installed: Path, tmp_path: Path) -> None:
    broken = tmp_path / "logcleaner.service"
    broken.write_text((installed / broken.name).read_text().replace("ProtectClock=yes", "ProtectClok=yes"))
    assert "ProtectClok" in run("systemd-analyze", "verify", "--man=no", broken).stderr


@pytest.mark.parametrize("name", SERVICES)
def test_little_is_exposed(installed: Path, name: str) -> None:
    done = run("systemd-analyze", "security", "--offline=true", "--no-pager", installed / name)
    (exposure,) = re.findall(r"Overall exposure level for .*: ([\d.]+)", done.stdout)
    assert float(exposure) <= EXPOSURE_MAX, done.stdout


def hardening(name: str) -> list[str]:
    """From the user on, without comments."""
    text = (UNITS / name).read_text().partition("User=")[2].partition("[Install]")[0]
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def condition() -> str:
    (line,) = re.findall(r"^ExecCondition=\+/bin/sh -c '(.*)'$", (UNITS / SERVICES[1]).read_text(), re.MULTILINE)
    return str(line).replace("$$", "$")


@pytest.mark.parametrize(
    ("state", "status"),
    [("inactive", 0), ("failed", 0), ("", 0), ("active", 1), ("activating", 1), ("deactivating", 1), ("reloading", 1)],
)
def test_the_timer_does_nothing_while_a_broker_runs_or_starts(tmp_path: Path, state: str, status: int) -> None:
    (tmp_path / "systemctl").write_text(f"#!/bin/sh\n[ $# = 4 ] && echo {state}\n")
    (tmp_path / "systemctl").chmod(0o755)
    done = run("/bin/sh", "-c", condition(), env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert done.returncode == status


def test_logcleaner_makes_way_for_a_broker_and_goes_on_behind_it_and_nothing_orders_the_broker() -> None:
    lines = (UNITS / "10-make-way-for-kafka.conf").read_text().splitlines()
    (before,), (behind,) = (
        [line for line in lines if line.startswith(key)] for key in ("ExecStartPre=", "ExecStopPost=")
    )
    assert before.startswith("ExecStartPre=-+/bin/systemctl stop ")
    assert {*before.split()[2:]} == {"logcleaner.service", "logcleaner-clean.service"}
    assert "--no-block start logcleaner.service" in behind
    for path in UNITS.iterdir():
        said = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        assert not [line for line in said if re.match(r"(Conflicts|Before|Requires|BindsTo|PartOf)=", line)], path


def test_the_daemon_lets_go_before_free_needs_its_lock() -> None:
    """systemd runs the commands of drop-ins in the order of the files' names."""
    before = [path.name for path in sorted(UNITS.glob("*.conf")) if "ExecStartPre=" in path.read_text()]
    assert [("make-way" in name, "free-before" in name) for name in before] == [(True, False), (False, True)]
    assert set(before) <= set(BY_NAME)


def test_the_drop_ins_for_the_broker_are_valid(tmp_path: Path) -> None:
    unit = tmp_path / "kafka.service"
    unit.write_text("[Service]\nExecStart=/bin/true\n")
    (tmp_path / "kafka.service.d").mkdir()
    dropped = UNITS / "10-make-way-for-kafka.conf"
    (tmp_path / "kafka.service.d" / dropped.name).write_text(dropped.read_text())
    done = run("systemd-analyze", "verify", "--man=no", unit, env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"})
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_all_services_are_hardened_alike() -> None:
    differ = ("RestrictAddressFamilies", "IPAddress", "PrivateNetwork", "MemoryDenyWriteExecute")
    daemon, *others = ([line for line in hardening(name) if not line.startswith(differ)] for name in SERVICES)
    assert others == [daemon, daemon]


def test_no_service_may_execute_what_it_wrote_but_the_one_with_a_jvm() -> None:
    assert [name for name in SERVICES if "MemoryDenyWriteExecute=yes" not in hardening(name)] == [SERVICES[2]]


def test_everything_installed_can_be_read_by_systemd(installed: Path) -> None:
    root = installed.parents[3]
    users = run("systemd-sysusers", f"--root={root}", root / "usr/lib/sysusers.d/logcleaner.conf")
    assert users.returncode == 0, users.stderr
    assert re.search(r"^logcleaner:", (root / "etc/passwd").read_text(), re.MULTILINE)
    files = run("systemd-tmpfiles", f"--root={root}", "--create", root / "usr/lib/tmpfiles.d/logcleaner.conf")
    assert files.returncode == 0, files.stderr


def test_the_sample_configuration_is_valid() -> None:
    settings = read_settings(UNITS / "logcleaner.toml")
    assert settings.metrics_listen == "127.0.0.1:17308"
    assert "max.delete.ratio" not in settings.defaults  # off, as it is without a file


def test_the_sample_port_is_none_that_exporters_are_given() -> None:
    """Prometheus' list of default ports: 9100 to 9999 and, since those are taken, 10000 and on."""
    port = int((read_settings(UNITS / "logcleaner.toml").metrics_listen or "").rpartition(":")[2])
    assert 11_000 < port < 32_768, "from 32768 on Linux takes ports for connections"
    assert port != 19_092, "a common second listener of Kafka"


@pytest.mark.parametrize("name", SERVICES)
def test_services_come_after_the_mounts_and_do_not_require_them(name: str) -> None:
    unit = (UNITS / name).read_text()
    assert "\nAfter=local-fs.target remote-fs.target" in unit
    directives = re.findall(r"^(\w+)=", unit, re.MULTILINE)
    assert not {"RequiresMountsFor", "Requires", "BindsTo", "Requisite", "Conflicts", "Before"} & set(directives)


def test_a_reload_checks_the_configuration_that_the_daemon_reads_before_it_sends_the_signal() -> None:
    """systemd stops at the first command that fails, and tells that the reload failed."""
    unit = (UNITS / "logcleaner.service").read_text()
    (start,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    check, signal = re.findall(r"^ExecReload=(.*)$", unit, re.MULTILINE)
    assert signal == "/bin/kill -HUP $MAINPID"
    assert check.split() == [*start.replace(" run ", " config check ").split()]
    assert "ExecStartPre=" not in re.sub(r"^#.*$", "", unit, flags=re.MULTILINE)  # 2 would not prevent a restart


def test_a_check_makes_only_calls_that_the_unit_allows(tmp_path: Path) -> None:
    config = tmp_path / "logcleaner.toml"
    config.write_text((UNITS / config.name).read_text())
    forbidden = members("@known") - allowed("logcleaner.service")
    calls = traced(
        tmp_path, forbidden | {"openat"}, sys.executable, "-m", "cleaner", "config", "check", "--config", config
    )
    assert calls == {"openat"}


def test_only_a_wrong_configuration_ends_the_daemon_for_good() -> None:
    unit = (UNITS / "logcleaner.service").read_text()
    assert re.findall(r"^RestartPreventExitStatus=(.*)$", unit, re.MULTILINE) == ["2"]
    assert "\nRestart=on-failure\n" in unit


def free_before_kafka(root: Path, command: str) -> str:
    """What the broker's unit runs, as systemd hands it on."""
    assert main(["systemd", "install", "--root", str(root), "--command", command]) == 0
    text = (root / "usr/local/share/doc/logcleaner/examples/20-free-before-kafka.conf").read_text()
    (line,) = re.findall(r"^ExecStartPre=(.*)$", text, re.MULTILINE)
    return line.replace("%%", "%").replace("$$", "$")


@pytest.mark.parametrize("status", [0, 1, None])
def test_a_broker_starts_whatever_comes_of_the_free_before_it_and_the_journal_tells(
    tmp_path: Path, status: int | None
) -> None:
    command = tmp_path / "bin/logcleaner"
    command.parent.mkdir()
    if status is not None:
        command.write_text(f'#!/bin/sh\necho "$@"\nexit {status}\n')
        command.chmod(0o755)
    line = free_before_kafka(tmp_path / "root", str(command))
    assert not line.startswith("-")
    done = subprocess.run(shlex.split(line), check=False, capture_output=True, text=True)
    assert done.returncode == 0
    if status == 0:
        assert done.stdout == "free --target 10% --config /etc/logcleaner.toml\n"
    assert ("<3>" in done.stderr) == (status != 0)
    assert (f"exit status {127 if status is None else status}" in done.stderr) == (status != 0)


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.name
)
def test_no_page_names_a_path_of_another_install(path: Path) -> None:
    assert "/usr/bin/logcleaner" not in path.read_text()


def members(group: str) -> set[str]:
    """The system calls of a group, and of the groups in it."""
    done = run("systemd-analyze", "--no-pager", "syscall-filter", group)
    lines = [line.strip() for line in done.stdout.splitlines()[1:]]
    calls: set[str] = set()
    for line in lines:
        if line.startswith("@"):
            calls |= members(line)
        elif line and not line.startswith("#"):
            calls.add(line)
    assert calls, done.stderr
    return calls


def allowed(name: str) -> set[str]:
    """What the unit's ``SystemCallFilter=`` lines come to."""
    calls: set[str] = {"execve", "exit", "exit_group", "getrlimit", "rt_sigreturn", "time", "gettimeofday"}
    for line in re.findall(r"^SystemCallFilter=(.*)$", (UNITS / name).read_text(), re.MULTILINE):
        said = {call for word in line.lstrip("~").split() for call in (members(word) if word[0] == "@" else {word})}
        calls = calls - said if line.startswith("~") else calls | said
    return calls


@pytest.mark.parametrize("name", SERVICES)
def test_what_takes_over_a_machine_is_not_allowed(name: str) -> None:
    calls = allowed(name)
    assert {"mincore", "fchown", "inotify_add_watch", "clone3"} <= calls
    assert not calls & {"ptrace", "mount", "setuid", "setgroups", "reboot", "init_module", "bpf", "swapon", "chroot"}


def traced(tmp_path: Path, calls: set[str], *command: str | Path) -> set[str]:
    """Those of the system calls that a command makes, with its threads and children; it ends well."""
    log, wanted = tmp_path / "calls", ",".join(f"?{call}" for call in sorted(calls))
    strace = ("strace", "--follow-forks", "--seccomp-bpf", f"--trace={wanted}", "--summary-only",
              "--summary-columns=name", f"--output={log}")  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = run(*strace, *command, env=environment)
    if "ptrace" in done.stderr and "not permitted" in done.stderr:
        pytest.skip(f"NOT RUN: nothing can be traced here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    return {line.strip() for line in log.read_text().splitlines()[1:]} & calls


def test_a_clean_with_compaction_makes_only_calls_that_its_unit_allows(demo: Path, tmp_path: Path) -> None:
    log_dir = shutil.copytree(demo, tmp_path / "data")
    config = tmp_path / "logcleaner.toml"
    config.write_text(f'log.dirs = ["{log_dir}"]\n[metrics]\ntextfile = "logcleaner.prom"\n')
    forbidden = members("@known") - allowed("logcleaner-clean.service")
    clean = (sys.executable, "-m", "cleaner", "clean", "--config", config)
    calls = traced(tmp_path, forbidden | {"fsync", "mincore"}, *clean)
    metrics = (tmp_path / "logcleaner.prom").read_text()
    for figure in ("compacted_segments", "deleted_segments"):
        assert re.search(rf"logcleaner_last_run_{figure}{{.*}} [1-9]", metrics), metrics
    assert re.search(r"logcleaner_map_utilisation_ratio 0\.0*[1-9]", metrics)
    assert calls == {"fsync", "mincore"}  # traced to see that it is traced, and that no group would do


MEMORY_CALLS = ("mmap", "mprotect", "pkey_mprotect", "shmat")
DENIED = re.compile(r"\bmmap\(.*PROT_WRITE\|PROT_EXEC|\b(pkey_)?mprotect\(.*PROT_EXEC|\bshmat\(.*SHM_EXEC")
"""What systemd's filter for ``MemoryDenyWriteExecute=yes`` refuses."""


def executed_memory(tmp_path: Path, *command: str | Path) -> list[str]:
    """Return the calls by which a command, with its threads and children, maps memory that it can execute."""
    log = tmp_path / "memory"
    strace = ("strace", "--follow-forks", "--seccomp-bpf", f"--trace={','.join(MEMORY_CALLS)}", f"--output={log}")
    done = run(*strace, *command, env={**os.environ, "PYTHONPATH": str(ROOT)})
    if "ptrace" in done.stderr and "not permitted" in done.stderr:
        pytest.skip(f"NOT RUN: nothing can be traced here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    return [line for line in log.read_text().splitlines() if "PROT_EXEC" in line or "SHM_EXEC" in line]


UNTIL_COMPACTED = """
"$0" -m cleaner run --config "$1" 2> "$2" &
for _ in $(seq 300); do grep -q segments_compacted "$2" && break; sleep 0.2; done
kill -TERM $! && wait $!
"""


def test_the_daemon_makes_only_calls_that_its_unit_allows(demo: Path, tmp_path: Path) -> None:
    shutil.copytree(demo, tmp_path / "data")
    config, log = tmp_path / "logcleaner.toml", tmp_path / "log"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    config.write_text(f'log.dirs = ["{tmp_path / "data"}"]\n[metrics]\nlisten = "127.0.0.1:{port}"\n')
    forbidden = members("@known") - allowed("logcleaner.service")
    calls = traced(tmp_path, forbidden | {"fsync", "mincore"}, "sh", "-c", UNTIL_COMPACTED, sys.executable, config, log)
    assert "segments_compacted" in log.read_text(), log.read_text()
    assert "daemon_stopped" in log.read_text()
    assert calls == {"fsync", "mincore"}


WRITES_AND_EXECUTES = "import mmap; mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)"


def test_a_clean_with_compaction_executes_no_memory_that_it_wrote(demo: Path, tmp_path: Path) -> None:
    shutil.copytree(demo, tmp_path / "data")
    command = (sys.executable, "-m", "cleaner", "clean", "--log-dir", tmp_path / "data", "--yes")
    done = run(*command, "--dry-run", "--json", env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert '"compact"' in done.stdout, done.stdout + done.stderr
    calls = executed_memory(tmp_path, *command)
    assert calls, "libraries are mapped so"
    assert [call for call in calls if DENIED.search(call)] == []
    (refused,) = executed_memory(tmp_path, sys.executable, "-I", "-S", "-c", WRITES_AND_EXECUTES)[-1:]
    assert DENIED.search(refused)


def test_the_daemon_and_its_child_execute_no_memory_that_they_wrote(demo: Path, tmp_path: Path) -> None:
    shutil.copytree(demo, tmp_path / "data")
    config, log = tmp_path / "logcleaner.toml", tmp_path / "log"
    config.write_text(f'log.dirs = ["{tmp_path / "data"}"]\n')
    calls = executed_memory(tmp_path, "sh", "-c", UNTIL_COMPACTED, sys.executable, config, log)
    assert "segments_compacted" in log.read_text(), log.read_text()
    assert calls, "libraries are mapped so"
    assert [call for call in calls if DENIED.search(call)] == []
