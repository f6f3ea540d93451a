"""What questions answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from ._errors import Error
    from ._native import ListedLock


@dataclass(frozen=True)
class Holder:
    """Who holds a lock, as the servers tell."""

    id: str
    """The hold, as its layout writes it; `readers` stands for all readers of a lock."""
    remaining: Optional[float]
    """For how many seconds its lease lasts unless it is renewed."""
    holds: int
    """How often it holds the lock; of `readers`, how many there are."""
    label: Optional[str]
    """The program: `HOST:PID` unless it says otherwise."""
    last_token: Optional[int]
    """The largest token that was issued for the name, if a server told."""
    waiters: Optional[int]
    """How many wait in the servers' queue, if a server told."""

    def has(self, nonce: str) -> bool:
        """Whether it is the hold with this `nonce`."""
        # Redisson's layout writes the nonce as a UUID, and a number of a thread after it.
        return self.id.replace("-", "").split(":")[0] == nonce


@dataclass(frozen=True)
class HeldLock:
    """A lock that somebody holds: see `Locker.list`."""

    name: str
    """Its name, with the prefix of the locker."""
    kind: str
    """`lock`, `all`, `permit`, `read` or `write`."""
    slot: Optional[int]
    """The slot of a permit."""
    holder: Holder
    """Who holds it."""
    _listed: ListedLock = field(repr=False, compare=False)


@dataclass(frozen=True)
class Leadership:
    """Who leads: see `Election.observe`."""

    state: str
    """`leader`, `nobody`, or `unknown` while too few servers answer."""
    holder: Optional[Holder]
    """Who leads, if somebody does."""
    error: Optional[Error]
    """Why it is unknown."""


@dataclass(frozen=True)
class NodeReport:
    """A server that gave no vote."""

    node: str
    """Its URL, without the password."""
    problem: str
    """What is wrong: the variant of `NodeProblem` in Rust, such as `Permission`."""
    text: str
    """What is wrong, and what mends it."""
    may_pass: bool
    """Whether it may pass without anybody's action."""


@dataclass(frozen=True)
class NodeStatus:
    """Whether a server may vote: see `Locker.node_status`."""

    node: str
    """Its URL, without the password."""
    label: str
    """Its label in lists of servers."""
    is_admitted: bool
    """Whether it votes."""
    problem: Optional[str]
    """Why it does not: the variant of `NodeProblem` in Rust."""
    text: Optional[str]
    """Why it does not, and what mends it."""


@dataclass(frozen=True)
class Stats:
    """What a locker has counted since it was made."""

    waiting: int
    """Calls that wait for an answer now."""
    granted: int
    """Calls that were granted a lock."""
    busy: int
    """Calls that ended because another client held the lock."""
    failed: int
    """Calls that ended with another error."""
    closed: int
    """Calls that ended because the locker was closed."""
    dropped: int
    """Calls that were cancelled."""
    held: int
    """Holds of now."""
    oldest: Optional[float]
    """The age of the oldest hold in seconds. None: each is younger than a third of its lease."""
    released: int
    """Holds that were released."""
    lost: int
    """Holds that were lost."""
    renewed: int
    """Renewals that the servers confirmed."""
    not_renewed: int
    """Renewals that the servers did not confirm in time."""
