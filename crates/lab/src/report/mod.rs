//! The report: a page, figures and tables of what the lab left on disk. Nothing but those files is
//! needed, and the same files give the same report.
//!
//! ```text
//! report.html       self-contained: no script, nothing from elsewhere
//! figures/*.svg     each figure of the page, and the lanes of every run
//! tables/*.csv      each table of the page, with plain numbers, and the data of the curves
//! ```

mod bins;
mod clean;
mod error;
mod film;
mod load;
mod page;
mod results;
mod shot;
mod svg;
mod table;
mod verdict;
mod witness;
mod words;
mod write;

pub use self::error::ReportError;
pub use self::write::{Written, write};

#[cfg(test)]
mod sample;
