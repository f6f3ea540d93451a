//! Checks whether the caller is in a tokio runtime, and what that runtime can do.
//!
//! tokio answers only by a panic. A runtime without the needed driver is thus reported twice: by
//! tokio's panic message, which names the missing `enable_...`, and by our error. With `panic =
//! "abort"` the panic ends the program.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use quorumlock_protocol::ConfigError;
use tokio::runtime::Handle;

/// The caller's runtime, if it has timers. Costs less than 100 ns.
pub fn timed() -> Result<Handle, ConfigError> {
    let runtime = Handle::try_current().map_err(|_| ConfigError::NoRuntime)?;
    // A timer that is never polled is not registered with the runtime.
    works(|| drop(tokio::time::sleep(Duration::ZERO)))?;
    Ok(runtime)
}

/// The caller's runtime, if it has timers and I/O. Opens a socket for a moment, so call it before a
/// connection, not before a request.
pub fn connected() -> Result<Handle, ConfigError> {
    let runtime = timed()?;
    // An error of the socket itself is ignored here: connecting reports it.
    works(open_socket)?;
    Ok(runtime)
}

#[cfg(unix)]
fn open_socket() {
    drop(tokio::net::UnixDatagram::unbound());
}

#[cfg(not(unix))]
fn open_socket() {
    let bound = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0));
    drop(bound.and_then(|socket| {
        socket.set_nonblocking(true)?;
        tokio::net::UdpSocket::from_std(socket)
    }));
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
