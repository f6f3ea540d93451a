//! Is there a tokio runtime here, and can it do what we need?
//!
//! tokio answers by a panic only, so a bad runtime is told twice: by tokio's panic message, which
//! names the missing `enable_...`, and by our error. With `panic = "abort"` the first ends the
//! program.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tokio::net::UnixDatagram;
use tokio::runtime::Handle;

use crate::ConfigError;

/// The runtime of the caller, which has timers. Costs less than 100 ns.
pub(crate) fn timed() -> Result<Handle, ConfigError> {
    let runtime = Handle::try_current().map_err(|_| ConfigError::NoRuntime)?;
    // Made and dropped: what is never polled enters no timer wheel.
    works(|| drop(tokio::time::sleep(Duration::ZERO)))?;
    Ok(runtime)
}

/// The runtime of the caller, which has timers and I/O. Takes a socket for a moment: ask before a
/// connection, not before a request.
pub(crate) fn connected() -> Result<Handle, ConfigError> {
    let runtime = timed()?;
    // Whether the system gives a socket is not asked here: the dial says it.
    works(|| drop(UnixDatagram::unbound()))?;
    Ok(runtime)
}

fn works(probe: impl FnOnce()) -> Result<(), ConfigError> {
    catch_unwind(AssertUnwindSafe(probe)).map_err(|_| ConfigError::NoRuntime)
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn a_runtime_is_good_for_what_it_was_built_with() {
        let outside = (timed().is_ok(), connected().is_ok());
        assert_eq!(outside, (false, false), "no runtime");
        for (io, time) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut builder = Builder::new_current_thread();
            if io {
                builder.enable_io();
            }
            if time {
                builder.enable_time();
            }
            let runtime = builder.build().expect("a runtime");
            let found = runtime.block_on(async { (timed().is_ok(), connected().is_ok()) });
            assert_eq!(found, (time, io && time), "io {io}, time {time}");
        }
    }
}
