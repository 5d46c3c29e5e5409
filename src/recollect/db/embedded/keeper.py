"""The keeper: Postgres's parent, which ends it once its last user has gone.

It is started by path as a script (see ``start``), in Python's isolated mode and without site
packages, so that it is up in milliseconds whatever the application imports. Therefore it may
import the standard library only. What it and Postgres say goes to Postgres's log.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

PORT = 5432
LARGEST_LOG = 10_000_000
LOG_CHECKED_EVERY = 60.0
# A fast shutdown writes a checkpoint, which takes a while on a slow disk; the harsher ways lose
# nothing that was committed, but make the next start recover it.
WAYS_TO_END = ((signal.SIGINT, 60.0), (signal.SIGQUIT, 15.0), (signal.SIGKILL, 15.0))
STEADY_AFTER = 5.0
PATIENCE_BEFORE_STEADY = 5.0
PATIENCE_AFTER_STEADY = 60.0
_PR_SET_PDEATHSIG = 1


class Orders(NamedTuple):
    keeper_lock: int
    """The descriptor of keeper.lock, locked by whoever started us and handed over."""
    users_lock: str
    postgres: str
    data_dir: str
    socket_dir: str
    log: str
    uid: int | None
    gid: int | None


class Keeper:
    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self._postmaster: subprocess.Popen[bytes] | None = None
        self._changing = threading.Lock()
        self._stopping = threading.Event()
        self._ended = threading.Event()

    def keep(self) -> int:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: _in_background(self._stop))
        _in_background(self._stop_after_last_user)
        _in_background(self._bound_log)
        failing_since, patience, pause = time.monotonic(), PATIENCE_BEFORE_STEADY, 0.1
        while True:
            started = time.monotonic()
            status = self._run_postmaster()
            if self._stopping.is_set():
                return 0
            now = time.monotonic()
            if now - started > STEADY_AFTER:
                failing_since, patience, pause = now, PATIENCE_AFTER_STEADY, 0.1
            if now - failing_since > patience:
                say(f"Postgres ended with status {status} again and again; giving up")
                return 1
            say(f"Postgres ended with status {status}; starting it again")
            # Backends of a killed postmaster hold its shared memory until they notice.
            self._stopping.wait(pause)
            pause = min(pause * 2, 1.0)

    def _run_postmaster(self) -> int:
        announce(self.orders.keeper_lock, "")
        clear_leftovers(Path(self.orders.data_dir), Path(self.orders.socket_dir))
        with self._changing:
            if self._stopping.is_set():
                return 0
            self._ended.clear()
            self._postmaster = self._start_postmaster()
        announce(self.orders.keeper_lock, f"{os.getpid()} {self._postmaster.pid}")
        status = self._postmaster.wait()
        self._ended.set()
        return status

    def _start_postmaster(self) -> subprocess.Popen[bytes]:
        on_linux = sys.platform == "linux"
        return subprocess.Popen(
            postgres_command(self.orders),
            cwd="/",
            stdin=subprocess.DEVNULL,
            user=self.orders.uid,
            group=self.orders.gid,
            extra_groups=None if self.orders.uid is None else [],
            # Safe here, as this process's other threads only wait in system calls.
            preexec_fn=_end_with_parent(os.getpid()) if on_linux else None,  # noqa: PLW1509 - see above
        )

    def _stop_after_last_user(self) -> None:
        fd = os.open(self.orders.users_lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        # Never given back: whoever wants to be a user has to wait until this process is gone.
        fcntl.flock(fd, fcntl.LOCK_EX)
        self._stop()

    def _stop(self) -> None:
        with self._changing:
            self._stopping.set()
            postmaster = self._postmaster
        if postmaster is None:
            return
        for number, patience in WAYS_TO_END:
            postmaster.send_signal(number)
            if self._ended.wait(patience):
                return
            say(f"Postgres has not ended {patience:.0f} s after signal {number.name}")

    def _bound_log(self) -> None:
        while not self._stopping.wait(LOG_CHECKED_EVERY):
            with contextlib.suppress(OSError):
                bound_log(Path(self.orders.log))


def announce(keeper_lock: int, text: str) -> None:
    """Tell users of the keeper and the postmaster that are up, or with nothing that none is."""
    # Always of one length: a full disk lets us overwrite, but not write anew what was cut off.
    os.pwrite(keeper_lock, f"{text:31}\n".encode(), 0)


def postgres_command(orders: Orders) -> list[str]:
    settings = {
        "listen_addresses": "",
        "port": PORT,
        "unix_socket_directories": f'"{orders.socket_dir}"',
        "unix_socket_permissions": "0700",
        "max_connections": 100,
        # Statements keep the plan that they got when tables were small, until these are looked at again.
        "autovacuum_naptime": "10s",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "logging_collector": "off",
        "log_destination": "stderr",
        "lc_messages": "C",
        # What users store must not reach the log: errors, their statements and their details
        # quote it. The application reports its own errors.
        "log_min_messages": "log",
        "log_min_error_statement": "panic",
        "log_error_verbosity": "terse",
        "log_parameter_max_length": 0,
        "log_parameter_max_length_on_error": 0,
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    return [orders.postgres, "-D", orders.data_dir, *options]


def clear_leftovers(data_dir: Path, socket_dir: Path) -> None:
    """End a postmaster that outlived its keeper; remove what would stop a new one."""
    socket = socket_dir / f".s.PGSQL.{PORT}"
    socket_lock = socket.with_name(f"{socket.name}.lock")
    pid_file = data_dir / "postmaster.pid"
    for path in (pid_file, socket_lock):
        pid = _first_number(path)
        if pid is not None and is_postmaster(pid, data_dir):
            say(f"found Postgres running as {pid} without a keeper; ending it")
            _end(pid, data_dir)
    # Postgres believes any live process of its user to be the postmaster named there. It copes
    # with a dead one by itself, and then looks for surviving backends as well: leave it that.
    pid = _first_number(pid_file)
    if pid is None or _is_alive(pid):
        pid_file.unlink(missing_ok=True)
    socket_lock.unlink(missing_ok=True)
    socket.unlink(missing_ok=True)


def is_postmaster(pid: int, data_dir: Path) -> bool:
    """Whether this process is a postmaster of this very data directory."""
    if sys.platform == "linux":
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            return False
    else:
        ps = ["/bin/ps", "-ww", "-o", "command=", "-p", str(pid)]
        command = subprocess.run(ps, capture_output=True, check=False).stdout.replace(b"\n", b" ")
    return b"/postgres -D " + os.fsencode(data_dir) + b" " in command


def _end(pid: int, data_dir: Path) -> None:
    for number, patience in WAYS_TO_END:
        deadline = time.monotonic() + patience
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        while time.monotonic() < deadline:
            if not is_postmaster(pid, data_dir):
                return
            time.sleep(0.02)
        say(f"Postgres {pid} has not ended {patience:.0f} s after signal {number.name}")


def _first_number(path: Path) -> int | None:
    try:
        number = int(path.read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return None
    return number if 0 < number < 2**31 else None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def bound_log(log: Path) -> None:
    """Keep one old log; the current one is emptied in place, as Postgres has it open."""
    if log.exists() and log.stat().st_size > LARGEST_LOG:
        shutil.copyfile(log, log.with_name(f"{log.name}.1"))
        os.truncate(log, 0)


def environment() -> dict[str, str]:
    """Nothing that steers Postgres (PGDATA, PGPORT, ...) and none of the application's secrets."""
    kept = ("PATH", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"LC_ALL": "C"}


def start(orders: Orders) -> subprocess.Popen[bytes]:
    """Start a keeper; the caller's keeper.lock is the keeper's from here on."""
    bound_log(Path(orders.log))
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    log = os.open(orders.log, flags, 0o600)
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, json.dumps(orders._asdict())],
            cwd="/",
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # A terminal's Ctrl-C is for the application, not for us or Postgres.
            start_new_session=True,
            pass_fds=(orders.keeper_lock,),
        )
    finally:
        os.close(log)


def _end_with_parent(parent: int) -> Callable[[], None]:
    libc = ctypes.CDLL(None)

    # Runs after the change of user, which would have cleared the request.
    def ask_for_signal() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
        if os.getppid() != parent:
            os._exit(1)

    return ask_for_signal


def _in_background(task: Callable[[], None]) -> None:
    threading.Thread(target=task, daemon=True).start()


def say(text: str) -> None:
    sys.stderr.write(f"{datetime.now(UTC):%F %T} UTC keeper [{os.getpid()}] {text}\n")
    sys.stderr.flush()


def main() -> int:
    orders = Orders(**json.loads(sys.argv[1]))
    os.set_inheritable(orders.keeper_lock, False)
    return Keeper(orders).keep()


if __name__ == "__main__":
    sys.exit(main())
