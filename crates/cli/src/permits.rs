//! How many permits there are, and which slot is meant, as options say it.

use clap::builder::RangedI64ValueParser;
use clap::value_parser;
use quorumlock_protocol::Claim;

/// A number of permits.
pub(crate) fn number() -> RangedI64ValueParser<u32> {
    value_parser!(u32).range(1..=i64::from(Claim::MAX_PERMITS))
}

/// The number of a slot.
pub(crate) fn slot() -> RangedI64ValueParser<u16> {
    value_parser!(u16).range(0..=i64::from(Claim::MAX_PERMITS - 1))
}
