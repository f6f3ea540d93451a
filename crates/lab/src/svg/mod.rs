//! Figures as SVG: the frame, axes, curves and keys of all figures of the lab and of the benches.
//!
//! Each figure is pure: the same data gives the same [`Figure`], byte for byte. Colours are classes,
//! so that one drawing serves a page and its own file, in light and dark. No information is shown by
//! colour alone.

mod axis;
mod clean;
mod curve;
mod figure;
mod key;

pub use self::axis::{Log, Place, counts, linear};
pub(crate) use self::clean::{clean, plain, short};
pub use self::curve::curve;
#[cfg(test)]
pub(crate) use self::figure::assert_well_formed;
pub use self::figure::{Figure, STYLE, n};
pub use self::key::{Entry, key};
