//! The same load on a single node and on a quorum, side by side: which runs of the lab a comparison
//! is made of, and the figures that their histories give.

mod answer;
mod measured;
mod plan;
mod report;
#[cfg(test)]
pub(crate) mod sample;

pub use self::answer::{Answer, Seen, answers};
pub use self::measured::measure;
pub use self::plan::{BadPlan, Plan};
pub use self::report::{
    Alone, Contended, Environment, MEASURED, Measured, Parallel, Report, ServerKilled,
};
