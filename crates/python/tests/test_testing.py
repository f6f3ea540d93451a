"""What users have for their own tests."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import quorumlock as ql
from quorumlock.testing import MemoryServer


def test_a_server_in_the_process() -> None:
    server = MemoryServer()
    one, two = server.locker(lease=0.3), server.locker()
    with pytest.raises(ql.Lost):
        with one.lock("report") as hold:
            assert two.try_lock("report").acquire() is None
            server.forget_locks()
            lost = hold.lost.wait(5)
            assert lost is not None and lost.reason is ql.LossReason.GONE
    assert MemoryServer().locker().try_lock("report").acquire() is not None


def test_an_outage() -> None:
    server = MemoryServer()
    locker = server.locker(lease=0.2)
    hold = locker.lock("report").acquire()
    server.stop()
    lost = hold.lost.wait(5)
    assert lost is not None and lost.reason is ql.LossReason.WINDOW_SHUT
    with pytest.raises(ql.Unreachable):
        server.locker().try_lock("report").acquire()
    del hold  # else its locker keeps the name from others
    server.start()
    with locker.lock("report", wait=5):
        pass


def test_other_kinds_in_memory() -> None:
    locker = MemoryServer().locker()
    with locker.lock(["a", "b"]), locker.semaphore("s", 2).acquire() as permit:
        assert permit.slot in (0, 1)
    with locker.rw_lock("rw").read(), locker.rw_lock("rw").read():
        assert locker.rw_lock("rw").try_write().acquire() is None
    with pytest.raises(ql.ConfigError, match="durable"):
        MemoryServer().locker(durable=True)


def test_the_fixtures(quorumlock_server: MemoryServer, quorumlock_locker: ql.Locker) -> None:
    async def scenario() -> None:
        async with quorumlock_locker.lock("x"):
            assert await quorumlock_server.locker().try_lock("x") is None

    asyncio.run(scenario())


def test_pytest_finds_the_fixtures_by_itself(tmp_path: Path) -> None:
    test = tmp_path / "test_user.py"
    test.write_text(
        "def test_it(quorumlock_locker):\n"
        "    with quorumlock_locker.lock('x') as hold:\n"
        "        assert hold.token\n"
    )
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)]
    ran = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0 and "1 passed" in ran.stdout, ran.stdout + ran.stderr


def test_a_build_without_the_gil_is_refused() -> None:
    source = (
        "import sysconfig\n"
        "known = sysconfig.get_config_var\n"
        "sysconfig.get_config_var = lambda name: 1 if name == 'Py_GIL_DISABLED' else known(name)\n"
        "import quorumlock\n"
    )
    ran = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert ran.returncode == 1 and "ImportError: quorumlock does not support" in ran.stderr
