//! The time of lock and unlock in Rust, for the table of docs/PYTHON.md: `pairs COUNT URL...` prints
//! microseconds of a pair by the blocking API.

use std::time::Instant;

use quorumlock::blocking::Locker;
use quorumlock::{Admission, Error, Servers};

fn main() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    let count: u32 = args.next().and_then(|count| count.parse().ok()).unwrap_or(1_000);
    let urls: Vec<_> = args.collect();
    let builder = quorumlock::Locker::builder(urls.join(",").parse::<Servers>()?);
    let builder = if urls.len() > 1 { builder.admission(Admission::Redlock) } else { builder };
    let locker = Locker::from_async(builder.build()?)?;
    let pairs = |from: u32, count: u32| -> Result<(), Error> {
        for number in from..from + count {
            locker.lock(format!("rust/{number}")).acquire()?.unlock()?;
        }
        Ok(())
    };
    pairs(0, count / 4)?;
    let mut times = Vec::new();
    for number in count..2 * count {
        #[expect(clippy::disallowed_methods, reason = "a stopwatch")]
        let begin = Instant::now();
        pairs(number, 1)?;
        times.push(begin.elapsed());
    }
    // The median, as the benchmark has it: other programs move it little.
    times.sort_unstable();
    let each = times[times.len() / 2];
    #[expect(clippy::print_stdout, reason = "it is the result")]
    {
        println!("{}", each.as_secs_f64() * 1e6);
    }
    Ok(())
}
