//! Redis or Valkey servers as child processes, which can be paused, killed and started again.
//!
//! The API is synchronous. A server dies when its [`Server`] is dropped, or when our process ends
//! in any way.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let servers = quorumlock_testbed::servers::Servers::start(3)?;
//! println!("{:?}", servers.urls());
//! servers[0].pause()?;
//! servers[1].kill()?;
//! servers[1].restart_empty()?; // same port, no data
//! # Ok(())
//! # }
//! ```

mod error;
mod etcd;
mod faketime;
mod fleet;
mod memory_dir;
mod options;
mod parent_death;
mod process;
mod resp;
mod server;
mod source;
mod version;

pub use self::error::{ControlError, StartError};
pub use self::etcd::{Etcd, EtcdProgram, NoEtcd};
pub use self::faketime::{Faketime, NoFaketime, Shift, cache};
pub use self::fleet::{Servers, for_test};
pub use self::memory_dir::memory_dir;
pub use self::options::{ServerOptions, TlsFiles};
pub use self::resp::ask;
#[cfg(feature = "containers")]
pub(crate) use self::resp::is_up;
pub use self::server::Server;
pub use self::source::{NoServer, Source};
pub use self::version::{Version, field};
