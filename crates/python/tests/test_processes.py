"""Forks, and code that blocks the GIL."""

from __future__ import annotations

import subprocess

import pytest

import quorumlock as ql
from servers import BLOCKED, Server, output, python

_FORK = """
import os, sys, gc
import quorumlock as ql

url, name = sys.argv[1:]
locker = ql.Locker.single(url)
hold = locker.lock(name).acquire()

def child():
    try:
        locker.lock(name + "/other").acquire()
    except ql.ConfigError as error:
        assert error.problem == "Forked", error
    else:
        raise AssertionError("the parent's locker works in the child")
    try:
        hold.renew()
    except ql.ConfigError as error:
        assert error.problem == "Forked", error
    fresh = ql.Locker.single(url)
    with fresh.lock(name + "/child", wait=5) as own:
        own.check()
    assert fresh.try_lock(name).acquire() is None, "the parent holds it"

def forked(work):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert status == 0, status

forked(child)

def drops():
    global hold
    hold = None
    gc.collect()

forked(drops)

def grandchild():
    forked(child)

forked(grandchild)
hold.check()
hold.renew()
assert ql.Locker.single(url).try_lock(name).acquire() is None
hold.unlock()
print("ok")
"""


def test_a_fork_begins_anew(server: Server, name: str) -> None:
    assert output(python(_FORK, server.url, name)) == "ok"


_BUSY_FORKS = """
import os, sys, threading
import quorumlock as ql

url, name = sys.argv[1:]
locker = ql.Locker.single(url)
stop = False

def works(number):
    while not stop:
        with locker.lock(f"{name}/{number}"):
            pass

threads = [threading.Thread(target=works, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for number in range(30):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with ql.Locker.single(url).lock(f"{name}/child", wait=5):
                code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert status == 0, (number, status)
stop = True
for thread in threads:
    thread.join()
print("ok")
"""


def test_forks_beside_threads_that_lock(server: Server, name: str) -> None:
    assert output(python(_BUSY_FORKS, server.url, name), 60) == "ok"


_POOL = """
import multiprocessing, sys
import quorumlock as ql

url, name = sys.argv[1:]
locker = ql.Locker.single(url)  # as `gunicorn --preload` makes it: before the fork
own = None

def work(number):
    global own
    try:
        locker.ping()
        return "the parent's locker works"
    except ql.ConfigError as error:
        assert error.problem == "Forked"
    own = own or ql.Locker.single(url)
    with own.lock(name) as hold:
        return hold.token

if __name__ == "__main__":
    locker.ping()
    with multiprocessing.get_context("fork").Pool(3) as pool:
        tokens = pool.map(work, range(30))
    assert len(set(tokens)) == 30, tokens
    print("ok")
"""


def test_a_pool_of_forked_workers(server: Server, name: str) -> None:
    assert output(python(_POOL, server.url, name), 60) == "ok"


def test_a_blocked_gil_loses_no_lock(server: Server, single: ql.Locker, name: str) -> None:
    process = python(BLOCKED, server.url, name, "0.5", "3")
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    # Six leases long somebody else does not get it.
    with pytest.raises(ql.Busy):
        single.lock(name, wait=2.5).acquire()
    assert output(process) == "held"


def test_a_gil_blocked_for_a_minute_loses_no_lock(blocked: subprocess.Popen[str]) -> None:
    """It runs last: the program has been at it since the tests began."""
    assert output(blocked, 90) == "ready\nheld"
