//! Other processes: they count under a lock together, or hold one until told otherwise.
//!
//! Both ends of each conversation are in this module: [`Count`] and [`Holder`] start the program
//! `quorumlock-tests-worker`, which only calls [`main`].

mod count;
mod end;
mod hold;
pub mod line;
mod target;

pub use self::count::{Count, Counted};
pub use self::end::Ending;
pub use self::hold::Holder;
pub use self::target::Target;
use quorumlock::Error;

/// Runs the worker as its arguments say.
///
/// # Errors
/// If that is how the worker is to end.
///
/// # Panics
/// If anything is wrong: the process that started the worker sees its exit status.
pub fn main() -> Result<(), Error> {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let (task, arguments) = arguments.split_first().expect("a task");
    if task == end::TASK {
        return end::work(arguments);
    }
    work(task, arguments);
    Ok(())
}

#[tokio::main]
async fn work(task: &str, arguments: &[String]) {
    match task {
        count::TASK => count::work(arguments).await,
        hold::TASK => hold::work(arguments).await,
        line::TASK => line::work(arguments).await,
        _ => panic!("no such task: {task}"),
    }
}
