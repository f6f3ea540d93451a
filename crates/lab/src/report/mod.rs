//! The report: a page, figures and tables of the lab's directories. It is made from these files
//! only, and the same files give the same report.
//!
//! ```text
//! report.html       self-contained: no script, nothing from elsewhere
//! figures/*.svg     each figure of the page, and the lanes of every run
//! tables/*.csv      each table of the page, with plain numbers, and the data of the curves
//! ```
//!
//! [`scenarios_page`] and [`results_page`] are two pages of the documentation, as Markdown.

mod command_line;
mod counterexample;
mod error;
mod figures;
mod files;
mod histogram;
mod libraries;
mod load;
mod markdown;
mod page;
mod results;
mod shot;
mod side_by_side;
mod table;
mod timeline;
mod verdict;
mod words;
mod write;

pub use self::error::ReportError;
pub use self::libraries::{LIBRARIES_LEGEND, libraries_table};
pub use self::markdown::{libraries_page, plans_page, results_page, scenarios_page};
pub use self::write::{Written, write};
