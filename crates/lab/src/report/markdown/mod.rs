//! The pages of `docs/lab`, as Markdown: what the scenarios are, and what they have shown.

mod results;
mod scenarios;
mod text;

pub use self::results::results_page;
pub use self::scenarios::scenarios_page;
