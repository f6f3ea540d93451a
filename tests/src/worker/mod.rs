//! Other processes: they count under a lock together, or hold one until told otherwise.
//!
//! Both ends of each conversation stand here: [`Count`] and [`Holder`] start the program
//! `quorumlock-tests-worker`, which does nothing but call [`main`].

mod count;
mod hold;
mod target;

pub use self::count::Count;
pub use self::hold::Holder;
pub use self::target::Target;

/// The worker's life, as its arguments say.
///
/// # Panics
/// If anything is not as it should be: whoever started it sees the exit status.
#[tokio::main]
pub async fn main() {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let (task, arguments) = arguments.split_first().expect("a task");
    match task.as_str() {
        count::TASK => count::work(arguments).await,
        hold::TASK => hold::work(arguments).await,
        _ => panic!("no such task: {task}"),
    }
}
