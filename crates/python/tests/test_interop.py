"""Holders in Python and in Rust exclude each other. Rust is the command `quorumlock` here."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any, Dict, List

import pytest

import quorumlock as ql
from servers import command, eventually, output, python

_command = command()
_needed = os.environ.get("QUORUMLOCK_REQUIRE_COMMAND") == "1"
pytestmark = pytest.mark.skipif(
    _command is None and not _needed, reason="the command quorumlock is not built"
)
BUSY = 75


def rust(urls: List[str], *args: str) -> subprocess.CompletedProcess[str]:
    """Runs the command `quorumlock` on the servers."""
    assert _command is not None, "build it: cargo build --package quorumlock-cli"
    environment = {**os.environ, "QUORUMLOCK_NODES": ",".join(urls)}
    return subprocess.run(
        [_command, *args], env=environment, capture_output=True, text=True, timeout=60
    )


def started(urls: List[str], *args: str) -> subprocess.Popen[str]:
    """Starts the command `quorumlock`, which holds a lock until its input ends."""
    assert _command is not None
    environment = {**os.environ, "QUORUMLOCK_NODES": ",".join(urls)}
    line = [_command, *args, "--", "sh", "-c", "echo ready; cat"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(line, env=environment, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def status(urls: List[str], name: str, *args: str) -> Dict[str, Any]:
    told = rust(urls, "status", name, "--json", *args)
    found: Dict[str, Any] = json.loads(told.stdout)
    return found


def test_rust_sees_a_lock_of_python(urls: List[str], locker: ql.Locker, name: str) -> None:
    with locker.lock(name, label="python/1") as hold:
        told = json.dumps(status(urls, name)).replace("-", "")
        assert hold.nonce in told
        # The servers of a quorum may learn the label after the grant.
        assert eventually(lambda: "python/1" in json.dumps(status(urls, name)))
        assert rust(urls, "run", name, "--wait", "1", "--", "true").returncode == BUSY
    assert rust(urls, "run", name, "--wait", "5", "--", "true").returncode == 0


def test_python_sees_a_lock_of_rust(urls: List[str], locker: ql.Locker, name: str) -> None:
    process = started(urls, "run", name)
    assert locker.try_lock(name).acquire() is None
    holder = locker.mutex(name).holder()
    assert holder is not None and holder.label
    process.communicate(timeout=30)
    assert process.returncode == 0
    with locker.lock(name, wait=5) as hold:
        hold.check()


def test_tokens_grow_from_rust_to_python_and_back(
    urls: List[str], locker: ql.Locker, name: str
) -> None:
    tokens = []
    for _round in range(3):
        with locker.lock(name, wait=5) as hold:
            tokens.append(hold.token)
        printed = rust(urls, "run", name, "--", "sh", "-c", "echo $QUORUMLOCK_TOKEN")
        tokens.append(int(printed.stdout))
    assert tokens == sorted(set(tokens)), tokens


def test_sets_readers_permits_and_elections(
    urls: List[str], locker: ql.Locker, name: str
) -> None:
    both = [f"{name}/a", f"{name}/b"]
    with locker.lock(both):
        assert rust(urls, "run", both[1], "--wait", "1", "--", "true").returncode == BUSY
    process = started(urls, "run", *both)
    assert locker.try_lock(both[0]).acquire() is None
    process.communicate(timeout=30)

    reads = started(urls, "run", f"{name}/rw", "--read")
    with locker.rw_lock(f"{name}/rw").read(wait=5):
        assert locker.rw_lock(f"{name}/rw").try_write().acquire() is None
    reads.communicate(timeout=30)
    with locker.rw_lock(f"{name}/rw").write(wait=5):
        read = ("run", f"{name}/rw", "--read", "--wait", "1", "--", "true")
        assert rust(urls, *read).returncode == BUSY

    permit = started(urls, "run", f"{name}/permits", "--permits", "2")
    with locker.semaphore(f"{name}/permits", 2).acquire(wait=5):
        more = ("run", f"{name}/permits", "--permits", "2", "--wait", "1", "--", "true")
        assert rust(urls, *more).returncode == BUSY
        assert locker.semaphore(f"{name}/permits", 2).try_acquire().acquire() is None
    permit.communicate(timeout=30)

    leads = started(urls, "lead", f"{name}/leader")
    leader = locker.election(f"{name}/leader").leader()
    assert leader is not None and leader.label
    with pytest.raises(ql.Busy):
        locker.election(f"{name}/leader").campaign(wait=0.2).acquire()
    leads.communicate(timeout=30)
    assert eventually(lambda: locker.election(f"{name}/leader").leader() is None)


def test_rust_forces_a_lock_of_python(urls: List[str], locker: ql.Locker, name: str) -> None:
    hold = locker.lock(name, lease=3).acquire()
    assert rust(urls, "unlock", "--force", name).returncode == 0
    lost = hold.lost.wait(10)
    assert lost is not None and lost.reason is not ql.LossReason.RELEASED


_TICKET = """
import sys
import quorumlock as ql
hold = ql.Locker(ql.Servers(sys.argv[1])).resume(sys.argv[2])
print(hold.token)
hold.unlock()
"""


def test_a_ticket_of_another_process(urls: List[str], locker: ql.Locker, name: str) -> None:
    hold = locker.lock(name).acquire()
    ticket = hold.into_ticket()
    assert ticket.startswith("2.")
    token = int(output(python(_TICKET, ",".join(urls), ticket)))
    assert token > hold.token and not locker.mutex(name).is_locked()
