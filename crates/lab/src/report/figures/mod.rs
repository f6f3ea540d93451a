//! The figures of the report.

mod believers;
mod by_delay;
mod ecdf;
mod lanes;
mod modes;

pub(super) use self::believers::{Bar, LockLane, Panel, believers};
pub(super) use self::by_delay::{DelayLine, DelayPoint, by_delay};
pub(super) use self::ecdf::{Curve, ecdf};
pub(super) use self::lanes::{Fault, Lane, Lanes, Mark, MarkKind, Span, Style, lanes};
pub(super) use self::modes::{ModeRow, modes};
