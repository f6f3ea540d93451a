"""What can go wrong. Each text says who must act."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, ClassVar, Optional, Tuple

if TYPE_CHECKING:
    from ._values import Holder, NodeReport


class LossReason(enum.Enum):
    """Why a lock is no longer held."""

    WINDOW_SHUT = "window_shut"
    """No renewal was confirmed before the lease ended."""
    GONE = "gone"
    """The servers do not hold it any more: expired, deleted, evicted or taken over."""
    FORCED = "forced"
    """Somebody released it by force."""
    HOLD_LIMIT = "hold_limit"
    """The limit of `hold_at_most` was reached."""
    RELEASED = "released"
    """Its own holder released it: no reason to stop."""


class Error(Exception):
    """The base of all errors of quorumlock."""

    kind: ClassVar[str] = "error"
    """A stable word for logs and metrics."""

    is_retryable: bool = False
    """Whether the same call may succeed later, without anybody's action."""

    @property
    def is_busy(self) -> bool:
        """Whether somebody else holds the lock."""
        return self.kind == "busy"


class Busy(Error):
    """Another client holds the lock: wait, or try again later."""

    kind = "busy"
    is_retryable = True
    name: str = ""
    """Which lock."""
    remaining: Optional[float] = None
    """For how many seconds its lease lasts unless it is renewed, if a server told."""


class Lost(Error):
    """The lock is no longer held: stop the work that it guarded. Final for this hold."""

    kind = "lost"
    name: str = ""
    """Which lock."""
    reason: LossReason = LossReason.GONE
    """Why."""

    def __setattr__(self, name: str, value: object) -> None:
        """The native module knows words: they become members of `LossReason`."""
        super().__setattr__(name, LossReason(value) if name == "reason" else value)


class ConfigError(Error, ValueError):
    """The call or an option is wrong: fix the program. The text names the value and its bounds."""

    kind = "config"
    problem: str = "BadValue"
    """What is wrong: the variant of `ConfigError` in Rust, such as `BadDuration`."""


class Closed(Error):
    """The locker was closed: make a new one."""

    kind = "closed"


class _NoMajority(Error):
    """Too few servers decided."""

    name: Optional[str] = None
    """Which lock, if the call was about one."""
    of: int = 0
    """How many servers there are."""
    needed: int = 0
    """How many had to vote."""
    answered: int = 0
    """How many answered before the call ended."""
    voted: int = 0
    """How many of those voted."""
    nodes: Tuple[NodeReport, ...] = ()
    """What is wrong with each server that gave no vote."""
    holder: Optional[Holder] = None
    """Of a question who holds the lock: the holder that most servers name, fewer than have to."""
    named_by: int = 0
    """How many servers name that holder."""
    details: str = ""
    """The text with a line for each group of servers."""


class Unreachable(_NoMajority):
    """Too few servers answered: look at servers and network, retry with a pause."""

    kind = "unreachable"


class Refused(_NoMajority):
    """Enough servers answered, but too few can vote: the text says of each what mends it."""

    kind = "refused"
