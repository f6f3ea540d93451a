//! Drawings. Each is pure: the same data gives the same [`Figure`], byte for byte.
//!
//! Colours are classes, so that one drawing serves the page and its own file, in light and dark. No
//! information is shown by colour alone.

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
