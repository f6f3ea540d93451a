//! The holds of this command around this one: `quorumlock run a -- quorumlock run b -- ...`.

use std::env;

use quorumlock::{Error, Holder, Locker};
use quorumlock_protocol::Nonce;

/// The nonces of the holds under which this process runs, in its environment.
#[derive(Debug)]
pub(super) struct OuterHolds(Vec<Nonce>);

/// What is asked for.
#[derive(Debug)]
pub(super) enum Asked {
    Lock(Vec<String>),
    Permit(String, u32),
    Read(String),
    Write(String),
}

impl OuterHolds {
    /// The variable that lists them.
    pub(super) const VARIABLE: &str = "QUORUMLOCK_HOLDS";

    pub(super) fn from_env() -> Self {
        let list = env::var(Self::VARIABLE).unwrap_or_default();
        Self(list.split_whitespace().filter_map(Nonce::parse).collect())
    }

    /// The variable's value for a command under one hold more.
    pub(super) fn with(&self, nonce: Nonce) -> String {
        let all = self.0.iter().chain([&nonce]);
        all.map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    /// The name that is asked for and that one of these holds keeps, as the nodes report it now: that hold
    /// ends after this process, so the caller would wait for itself. Holds are told apart by their nonces,
    /// so another list of nodes or another prefix makes no difference.
    pub(super) async fn excludes<'a>(&self, asked: &'a Asked, locker: &Locker) -> Option<&'a str> {
        if self.0.is_empty() {
            return None;
        }
        self.find(asked, locker).await.unwrap_or(None) // the acquisition that follows reports the error
    }

    async fn find<'a>(&self, asked: &'a Asked, locker: &Locker) -> Result<Option<&'a str>, Error> {
        let (name, excluded) = match asked {
            Asked::Lock(names) => {
                for name in names {
                    if locker.mutex(name).holder().await?.is_some_and(|holder| self.has(&holder)) {
                        return Ok(Some(name));
                    }
                }
                return Ok(None);
            }
            Asked::Permit(name, permits) => {
                let slots = locker.semaphore(name, *permits).holders().await?;
                (
                    name,
                    slots.iter().all(|slot| slot.as_ref().is_some_and(|holder| self.has(holder))),
                )
            }
            Asked::Read(name) => {
                let holder = locker.rw_lock(name).holder().await?;
                (name, holder.is_some_and(|holder| !holder.reads() && self.has(&holder)))
            }
            Asked::Write(name) => {
                let holder = locker.rw_lock(name).holder().await?;
                (name, holder.is_some_and(|holder| self.has(&holder)))
            }
        };
        Ok(excluded.then_some(name))
    }

    fn has(&self, holder: &Holder) -> bool {
        self.0.iter().any(|nonce| holder.has(*nonce))
    }
}
