"""How a call of the native module ends: in a thread that waits, or in a loop of asyncio."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any, MutableMapping

from ._native import Bridge, Op

_bridges: MutableMapping[asyncio.AbstractEventLoop, Bridge] = weakref.WeakKeyDictionary()


def wait(op: Op) -> Any:
    """The result of a call. The thread waits without the GIL; Ctrl-C ends the wait."""
    return op.wait()


def wait_for(op: Op, seconds: float) -> Any:
    """As `wait`, for some seconds at most. Then the call is dropped, and the result is None."""
    return op.wait(max(seconds, 0.0))


async def finish(op: Op) -> Any:
    """The result of a call. A cancellation drops the call, and gives back what it was granted."""
    loop = asyncio.get_running_loop()
    bridge = bridge_of(loop)
    future: asyncio.Future[Any] = loop.create_future()
    number = bridge.start(op, future)
    try:
        return await future
    except BaseException:
        bridge.cancel(number, future)
        raise


def bridge_of(loop: asyncio.AbstractEventLoop) -> Bridge:
    """What brings results into this loop."""
    bridge = _bridges.get(loop)
    if bridge is None:
        bridge = _bridges[loop] = _watched_by(loop)
    return bridge


def _watched_by(loop: asyncio.AbstractEventLoop) -> Bridge:
    try:
        bridge = Bridge()
        loop.add_reader(bridge.fileno(), bridge.drain)
        return bridge
    except (NotImplementedError, OSError):
        # A loop that watches no descriptors, such as the one of Windows.
        return _called_by(loop)


def _called_by(loop: asyncio.AbstractEventLoop) -> Bridge:
    # A strong reference would keep the loop, whose bridge is kept as long as the loop is.
    weak = weakref.ref(loop)

    def wake() -> None:
        alive = weak()
        if alive is not None and not alive.is_closed():
            alive.call_soon_threadsafe(bridge.drain)

    bridge = Bridge(wake)
    return bridge
