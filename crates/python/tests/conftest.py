"""What all tests share."""

from __future__ import annotations

import itertools
import os
import subprocess
from typing import Iterator, List

import pytest

import quorumlock as ql
from servers import BLOCKED, Server, close_all, program, python

_numbers = itertools.count()


@pytest.fixture(scope="session", autouse=True)
def _a_server_program() -> None:
    if program() is None:
        assert os.environ.get("QUORUMLOCK_REQUIRE_SERVER") != "1", "no server program"
        pytest.skip("no server program: run scripts/get-server")


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server that all tests share: none of them stops it."""
    server = Server()
    yield server
    server.close()


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server that the test may stop."""
    server = Server()
    yield server
    server.close()


@pytest.fixture(scope="session")
def three() -> Iterator[List[Server]]:
    """Three admitted servers of a quorum, which all tests share."""
    servers = [Server() for _ in range(3)]
    with ql.Locker.quorum([server.url for server in servers]) as locker:
        locker.admit_nodes()
    yield servers
    close_all(servers)


@pytest.fixture(params=["single", "quorum"])
def urls(request: pytest.FixtureRequest, server: Server) -> List[str]:
    """The servers of both modes."""
    if request.param == "single":
        return [server.url]
    three: List[Server] = request.getfixturevalue("three")
    return [server.url for server in three]


@pytest.fixture
def locker(urls: List[str]) -> Iterator[ql.Locker]:
    """A locker of either mode."""
    with ql.Locker(ql.Servers(",".join(urls))) as locker:
        yield locker


@pytest.fixture
def other(urls: List[str]) -> Iterator[ql.Locker]:
    """Another locker on the same servers: another program, as it were."""
    with ql.Locker(ql.Servers(",".join(urls))) as locker:
        yield locker


@pytest.fixture
def single(server: Server) -> Iterator[ql.Locker]:
    """A locker on one server."""
    with ql.Locker.single(server.url) as locker:
        yield locker


@pytest.fixture
def name() -> str:
    """A name that no other test has."""
    return f"python/{os.getpid()}/{next(_numbers)}"


_MINUTE = "test_a_gil_blocked_for_a_minute_loses_no_lock"


def pytest_collection_modifyitems(items: List[pytest.Item]) -> None:
    items.sort(key=lambda item: item.name == _MINUTE)


@pytest.fixture(scope="session")
def blocked() -> Iterator[subprocess.Popen[str]]:
    """A holder with a lease of 2 s that blocks its GIL for 60 s, beside the other tests."""
    server = Server()
    process = python(BLOCKED, server.url, "blocked", "2", "60")
    yield process
    process.kill()
    process.communicate()
    server.close()


@pytest.fixture(scope="session", autouse=True)
def _the_minute_begins_first(
    request: pytest.FixtureRequest, _a_server_program: None
) -> None:
    if any(item.name == _MINUTE for item in request.session.items):
        request.getfixturevalue("blocked")
