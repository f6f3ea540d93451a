//! What the library says of the locks under which a command runs.

use std::io;

use tracing::{Level, Metadata};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// Prints the library's warnings on stderr, each in a line with the time; if `verbose`, what it tells at the
/// level info, too.
pub(crate) fn print_warnings(verbose: bool) {
    let most = if verbose { Level::INFO } else { Level::WARN };
    let meant = move |event: &Metadata<'_>| {
        event.is_event() && *event.level() <= most && event.target().starts_with("quorumlock")
    };
    let lines = fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_target(false)
        // What it would say of a closed stderr would panic.
        .log_internal_errors(false)
        .with_filter(filter_fn(meant));
    // Fails if there is a subscriber, which this program does not have.
    let _ = tracing_subscriber::registry().with(lines).try_init();
}
