//! The other half of a fencing token: the resource that checks it.
//!
//! A resource is protected if it (1) refuses, in one step with the access, a token smaller than the
//! largest it has seen, and (2) has the holder **claim** (present its token) **before it reads**.
//!
//! - In this process: [`FenceGate`].
//! - In Redis: the scripts [`FENCED_GET`] and [`FENCED_SET`].
//! - Anywhere else (SQL, files, a service of yours): the recipes of `docs/FENCING.md`; report a
//!   refusal as [`Stale`].
//!
//! ```
//! use quorumlock::FencingToken;
//! use quorumlock::fencing::{FenceGate, Stale};
//!
//! let balance = FenceGate::new(100);
//! let slow = balance.claim(FencingToken::new(33))?; // in real life: guard.token()
//! let seen = slow.with(|balance| *balance)?;
//!
//! // Meanwhile the lease of 33 ends, and the next holder gets in.
//! let quick = balance.claim(FencingToken::new(34))?;
//! quick.with(|balance| *balance += 50)?;
//!
//! // 33 wakes up: what it made of its old reading is refused.
//! let late = slow.with(|balance| *balance = seen + 1);
//! assert_eq!(late, Err(Stale::new(FencingToken::new(34), FencingToken::new(33))));
//! assert_eq!(quick.with(|balance| *balance), Ok(150));
//! # Ok::<(), Stale>(())
//! ```

mod gate;
mod stale;

pub use self::gate::{Claimed, FenceGate};
pub use self::stale::Stale;

/// Lua for Redis: claim, then read a string. `EVAL FENCED_GET 2 value fence token` answers
/// `{1, value or nil}`, or `{0, largest token seen}` if the token is stale.
///
/// The script does not need this crate: send it with any client. The value and the largest token
/// seen are two keys of one node (of one slot, in a cluster: `{account/7}` and
/// `{account/7}:fence`); the second must never expire, be evicted or be deleted.
///
/// ```text
#[doc = include_str!("fenced_get.lua")]
/// ```
pub const FENCED_GET: &str = include_str!("fenced_get.lua");

/// Lua for Redis: claim and write a string in one step. `EVAL FENCED_SET 2 value fence token new`
/// answers `{1, token}`, or `{0, largest token seen}` if the token is stale and nothing was
/// written.
///
/// A writer whose new value depends on the old one must have read it by [`FENCED_GET`], **not** by
/// a plain `GET`: see `docs/FENCING.md` for the update that is lost otherwise.
///
/// ```text
#[doc = include_str!("fenced_set.lua")]
/// ```
pub const FENCED_SET: &str = include_str!("fenced_set.lua");
