//! Judges: what happened, from what every holder saw. Pure: no socket, task or clock.
//!
//! They take [`Hold`]s and [`Wait`]s, all instants of which come from **one** clock. What a judge
//! sees is what the holders *believed*: two of them that believe at the same time are a violation,
//! whatever the servers thought.

mod account;
mod clerk;
mod effects;
mod handover;
mod hold;
mod overlap;
mod quantiles;
mod token;
mod vacancy;
mod wilson;

pub use self::account::{Account, Accountant};
pub use self::clerk::{Clerk, Ended, Entry};
pub use self::effects::{Effect, Effects};
pub use self::handover::{Handovers, handovers};
pub use self::hold::{Hold, Wait, Who};
pub use self::overlap::{Overlap, overlaps, time_overlapped};
pub use self::quantiles::Quantiles;
pub use self::token::{Tokens, tokens};
pub use self::vacancy::{longest_vacancy, vacancies};
pub use self::wilson::{Proportion, rule_of_three, wilson};

#[cfg(test)]
pub(crate) mod history;
