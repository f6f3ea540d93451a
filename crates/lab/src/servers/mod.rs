//! Redis or Valkey servers as child processes, which can be paused, killed and started again.
//!
//! Nothing here is asynchronous and nothing is left behind: a server dies with its [`Server`], or
//! with our process however that ends.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let servers = quorumlock_lab::servers::Servers::start(3)?;
//! println!("{:?}", servers.urls());
//! servers[0].pause()?;
//! servers[1].kill()?;
//! servers[1].restart_empty()?; // same port, no data
//! # Ok(())
//! # }
//! ```

mod error;
mod faketime;
mod fleet;
mod leash;
mod options;
mod process;
mod resp;
mod server;
mod source;
mod version;

pub use self::error::{ControlError, StartError};
pub use self::faketime::{Faketime, NoFaketime, Shift};
pub use self::fleet::{Servers, for_test};
pub use self::options::{ServerOptions, TlsFiles};
pub use self::resp::ask;
#[cfg(feature = "containers")]
pub(crate) use self::resp::is_up;
pub use self::server::Server;
pub use self::source::{NoServer, Source};
pub use self::version::Version;
pub(crate) use self::version::field;
