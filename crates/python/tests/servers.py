"""Real servers for the tests: each on a free port, gone with the test run."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, List, Optional

REPOSITORY = Path(__file__).resolve().parents[3]


def program() -> Optional[str]:
    """The server program, in the order of scripts/get-server."""
    given = os.environ.get("QUORUMLOCK_SERVER_BIN")
    if given:
        return given
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    fetched = cache / "quorumlock" / "valkey-server"
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    return found or (str(fetched) if fetched.exists() else None)


def command(name: str = "quorumlock") -> Optional[str]:
    """The Rust command of this name, if it is built. QUORUMLOCK_COMMAND names another `quorumlock`."""
    given = os.environ.get("QUORUMLOCK_COMMAND") if name == "quorumlock" else None
    built = [REPOSITORY / "target" / kind / name for kind in ("debug", "release")]
    found = [path for path in built if path.exists()]
    return given or (str(found[0]) if found else None)


class Server:
    """A server without data on disk."""

    def __init__(self) -> None:
        self._dir = tempfile.mkdtemp(prefix="quorumlock-python-")
        self._process: Optional[subprocess.Popen[bytes]] = None
        self.port = 0
        for _attempt in range(5):
            self.port = free_port()
            self.start()
            if self._answers():
                return
            self.kill()
        raise RuntimeError(f"no server: see {self._dir}")

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts it, on the port that it had."""
        binary = program()
        assert binary is not None, "no server program: run scripts/get-server"
        line = [binary, "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        line += ["--appendonly", "no", "--dir", self._dir, "--logfile", "log"]
        self._process = subprocess.Popen(line, preexec_fn=_end_with_parent)

    def kill(self) -> None:
        """Ends it at once. Its data are gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """It answers nobody, and connections stay."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """It answers again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Ends it, and removes what it wrote."""
        self.kill()
        shutil.rmtree(self._dir, ignore_errors=True)

    def ask(self, *words: str) -> bytes:
        """Sends one command, and gives the beginning of the reply."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            parts = "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
            connection.sendall(f"*{len(words)}\r\n{parts}".encode())
            return connection.recv(65536)

    def _answers(self) -> bool:
        def pings() -> bool:
            try:
                return self.ask("PING") == b"+PONG\r\n"
            except OSError:
                return False

        def ended() -> bool:
            return self._process is None or self._process.poll() is not None

        return eventually(lambda: pings() or ended(), 10) and pings()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def eventually(holds: Callable[[], bool], seconds: float = 10) -> bool:
    """Whether `holds` is true before the time is over."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.005)
    return holds()


def python(source: str, *args: str, stdin: bool = False) -> subprocess.Popen[str]:
    """A Python program beside the tests."""
    return subprocess.Popen(
        [sys.executable, "-c", source, *args],
        stdin=subprocess.PIPE if stdin else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_end_with_parent,
        start_new_session=True,
    )


def output(process: subprocess.Popen[str], seconds: float = 30) -> str:
    """What a program prints. It must end by itself, without an error."""
    try:
        out, error = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        # Also what it has forked.
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert process.returncode == 0, f"{process.returncode}: {out}{error}"
    return out.strip()


BLOCKED = """
import ctypes, sys
import quorumlock as ql

url, name, lease, seconds = sys.argv[1:]
hold = ql.Locker.single(url, lease=float(lease)).lock(name).acquire()
hold.on_lost(print)
print("ready", flush=True)
# PyDLL keeps the GIL while it calls: no other thread of Python runs.
ctypes.PyDLL(None).sleep(int(seconds))
hold.check()
hold.unlock()
print("held", flush=True)
"""
"""A holder that blocks its GIL."""


def _end_with_parent() -> None:
    """A test run that is killed leaves no server behind."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


def close_all(servers: List[Server]) -> None:
    for server in servers:
        server.close()
