//! Drawings. Each is pure: data in, [`Figure`] out, the same bytes for the same data.
//!
//! Colours are classes, so that one drawing serves the page and its own file, in light and dark.
//! Nothing is told by colour alone.

mod axis;
mod ecdf;
mod figure;
mod key;
mod lanes;
mod modes;

pub(super) use self::ecdf::{Curve, ecdf};
pub(super) use self::figure::{Figure, STYLE};
pub(super) use self::lanes::{Fault, Lane, Lanes, Mark, MarkKind, Span, Style, lanes};
pub(super) use self::modes::{ModeRow, modes};
