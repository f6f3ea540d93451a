use std::ops::Index;
use std::slice;

use super::{Server, ServerOptions, Source, StartError};
use crate::skip;

/// Several independent servers, as a quorum needs them.
#[derive(Debug)]
pub struct Servers {
    servers: Vec<Server>,
}

impl Servers {
    /// Starts `count` servers from [`Source::discover`], or takes the first `count` given URLs.
    ///
    /// # Errors
    /// If there is no source, or a server does not start. No server is left running then.
    pub fn start(count: usize) -> Result<Self, StartError> {
        Self::start_with(&Source::discover()?, count, &ServerOptions::default())
    }

    /// Starts `count` servers of one source, all with the same options.
    ///
    /// # Errors
    /// As for [`start`](Self::start). Options other than the default need [`Source::Binary`].
    pub fn start_with(
        source: &Source,
        count: usize,
        options: &ServerOptions,
    ) -> Result<Self, StartError> {
        let servers = match source {
            Source::Urls(urls) if urls.len() < count => {
                return Err(StartError::TooFewUrls { given: urls.len(), wanted: count });
            }
            Source::Urls(_) if *options != ServerOptions::default() => {
                return Err(StartError::OptionsForUrls);
            }
            Source::Urls(urls) => urls.iter().take(count).cloned().map(Server::given).collect(),
            Source::Binary(binary) => std::thread::scope(|scope| {
                let start = || scope.spawn(|| Server::start(binary, options.clone()));
                let threads = (0..count).map(|_| start()).collect::<Vec<_>>();
                let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                };
                threads.into_iter().map(join).collect::<Result<Vec<_>, _>>()
            })?,
        };
        Ok(Self { servers })
    }

    /// The URLs of all servers, in order.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.iter().map(|server| server.url().to_owned()).collect()
    }

    /// All servers, in order.
    pub fn iter(&self) -> slice::Iter<'_, Server> {
        self.servers.iter()
    }

    /// The number of servers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// Whether there are no servers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }
}

impl Index<usize> for Servers {
    type Output = Server;

    fn index(&self, index: usize) -> &Server {
        &self.servers[index]
    }
}

impl<'a> IntoIterator for &'a Servers {
    type Item = &'a Server;
    type IntoIter = slice::Iter<'a, Server>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Servers for a test, started by the test, which may stop and kill them. `None` if this machine
/// has no server program: stderr then says that the test was skipped, and the test should return.
///
/// # Panics
/// If there is no server program and `QUORUMLOCK_REQUIRE_SERVER=1`, as in CI; or if a server does
/// not start.
#[must_use]
pub fn for_test(count: usize, options: &ServerOptions) -> Option<Servers> {
    match Source::discover() {
        Err(no_server) => {
            skip("QUORUMLOCK_REQUIRE_SERVER", &no_server.to_string());
            None
        }
        Ok(source) => match Servers::start_with(&source, count, options) {
            Ok(servers) => Some(servers),
            Err(error) => panic!("{error}"),
        },
    }
}
