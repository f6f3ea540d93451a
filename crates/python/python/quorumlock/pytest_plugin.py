"""Fixtures for pytest, which finds them by the entry point of the package."""

from __future__ import annotations

from typing import Iterator

import pytest

from ._locker import Locker
from .testing import MemoryServer


@pytest.fixture
def quorumlock_server() -> MemoryServer:
    """A server in the process, without locks."""
    return MemoryServer()


@pytest.fixture
def quorumlock_locker(quorumlock_server: MemoryServer) -> Iterator[Locker]:
    """A locker on `quorumlock_server`, with a lease of 300 ms. It is closed after the test."""
    with quorumlock_server.locker(lease=0.3) as locker:
        yield locker
