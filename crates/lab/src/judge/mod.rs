//! Judges: what happened, from what every holder recorded. Pure: no socket, task or clock.
//!
//! They take [`Hold`]s and [`Wait`]s whose instants all come from **one** clock. A holder
//! *believes* that it holds the lock from its grant until it stops: at its release, when it is
//! notified of the loss, or when its lease ends. Two holders that believe at the same time are a
//! violation, whatever the servers stored.

mod effects;
mod handover;
mod hold;
mod idle;
mod overlap;
mod overtaking;
mod pairs;
mod quantiles;
mod replay;
mod summary;
mod token;
mod wilson;

pub use self::effects::{Effect, Effects};
pub use self::handover::{Handovers, handovers};
pub use self::hold::{Hold, Wait, Who};
pub use self::idle::{longest_vacancy, vacancies};
pub use self::overlap::{Overlap, most_holders, overlaps, time_overlapped};
pub use self::overtaking::{OVERTAKING_MARGIN, overtakings, overtakings_per_1000};
pub use self::pairs::Pairs;
pub use self::quantiles::Quantiles;
pub use self::replay::{Ended, Entry, HistoryReplay};
pub use self::summary::{Asked, HistorySummary, Summarizer};
pub use self::token::{Tokens, tokens};
pub use self::wilson::{Proportion, rule_of_three, wilson};

#[cfg(test)]
pub(crate) mod history;
