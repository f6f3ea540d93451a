"""Distributed locks on Redis and Valkey: one server, or a quorum of them, with fencing tokens.

The locks are those of the Rust library quorumlock, and exclude its holders. docs/PYTHON.md in the
repository is the guide.
"""

from __future__ import annotations

import sysconfig as _sysconfig

if _sysconfig.get_config_var("Py_GIL_DISABLED"):
    # The module is built for the stable ABI, which has no free-threaded form before Python 3.15.
    raise ImportError(
        "quorumlock does not support free-threaded builds of Python: use a build with the GIL"
    )

from ._errors import (
    Busy,
    Closed,
    ConfigError,
    Error,
    Lost,
    LossReason,
    Refused,
    Unreachable,
)
from ._handles import Election, Mutex, RwLock, Semaphore
from ._hold import AnyHold, AtRisk, Hold, LossEvent, PermitHold, ReadHold, WriteHold
from ._locker import Locker
from ._native import FENCED_GET, FENCED_SET, Owner, Servers, __version__
from ._options import (
    Duration,
    LockerOptions,
    LockOptions,
    PermitOptions,
    TryLockOptions,
    TryPermitOptions,
)
from ._request import LockRequest, TryLockRequest
from ._streams import Items
from ._values import HeldLock, Holder, Leadership, NodeReport, NodeStatus, Stats

__all__ = [
    "FENCED_GET",
    "FENCED_SET",
    "AnyHold",
    "AtRisk",
    "Busy",
    "Closed",
    "ConfigError",
    "Duration",
    "Election",
    "Error",
    "HeldLock",
    "Hold",
    "Holder",
    "Items",
    "Leadership",
    "LockOptions",
    "LockRequest",
    "Locker",
    "LockerOptions",
    "Lost",
    "LossEvent",
    "LossReason",
    "Mutex",
    "NodeReport",
    "NodeStatus",
    "Owner",
    "PermitHold",
    "PermitOptions",
    "ReadHold",
    "Refused",
    "RwLock",
    "Semaphore",
    "Servers",
    "Stats",
    "TryLockOptions",
    "TryLockRequest",
    "TryPermitOptions",
    "Unreachable",
    "WriteHold",
    "__version__",
]
