//! The pages of `docs/lab`, as Markdown: what the scenarios are, and what they have shown.

mod libraries;
mod plans;
mod results;
mod scenarios;
mod text;

pub use self::libraries::libraries_page;
pub use self::plans::plans_page;
pub use self::results::results_page;
pub use self::scenarios::scenarios_page;
