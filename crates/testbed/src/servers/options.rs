use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Faketime;

/// The settings of a server. The default keeps data in memory only, needs no password and listens
/// on loopback only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerOptions {
    /// Further arguments of the server's command line. They come last, so they override other
    /// settings.
    pub args: Vec<String>,
    /// The password of the default user. It is part of [`url`](super::Server::url).
    pub password: Option<String>,
    /// Also listen on a Unix socket: [`socket`](super::Server::socket).
    pub unix_socket: bool,
    /// Also listen for TLS on a second port, which [`url`](super::Server::url) then names. A server
    /// program built without TLS ends at once and says so.
    pub tls: Option<TlsFiles>,
    /// Keep data on disk, so that [`restart`](super::Server::restart) finds it again.
    pub appendonly: bool,
    /// Run as a sentinel, which monitors nothing yet.
    pub sentinel: bool,
    /// Run as a member of a Redis Cluster, which knows no other member yet and serves no slot.
    pub cluster: bool,
    /// Whether and how the wall clock can be set: [`set_clock`](super::Server::set_clock).
    pub faketime: Option<Faketime>,
}

/// The PEM files of a server with TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate authority.
    pub ca: PathBuf,
    /// The server's certificate.
    pub cert: PathBuf,
    /// The server's private key.
    pub key: PathBuf,
    /// Whether clients must show a certificate signed by the authority.
    pub wants_clients: bool,
}

impl ServerOptions {
    /// The server's command line, without the program.
    pub(super) fn command_line(
        &self,
        dir: &Path,
        port: u16,
        (tls_port, bus_port): (Option<u16>, Option<u16>),
    ) -> Vec<OsString> {
        let mut line = Vec::<OsString>::new();
        if self.sentinel {
            line.extend([sentinel_file_in(dir).into(), "--sentinel".into()]);
        }
        let mut set = |name: &str, value: &dyn AsRef<std::ffi::OsStr>| {
            line.push(format!("--{name}").into());
            line.push(value.as_ref().into());
        };
        set("bind", &"127.0.0.1");
        set("protected-mode", &"no");
        set("port", &port.to_string());
        set("dir", &dir);
        set("save", &"");
        set("appendonly", &if self.appendonly { "yes" } else { "no" });
        set("loglevel", &"warning");
        // A synchronisation does not wait for further replicas: by default, Redis 7 waits for 5 s.
        set("repl-diskless-sync-delay", &"0");
        if self.appendonly {
            // Every acknowledged write is on disk. After `SIGKILL` the page cache would suffice,
            // but this states what is meant.
            set("appendfsync", &"always");
        }
        if let Some(password) = &self.password {
            set("requirepass", password);
        }
        if let Some(bus_port) = bus_port {
            set("cluster-enabled", &"yes");
            set("cluster-port", &bus_port.to_string());
        }
        if self.unix_socket {
            set("unixsocket", &socket_in(dir));
        }
        if let (Some(tls), Some(tls_port)) = (&self.tls, tls_port) {
            set("tls-port", &tls_port.to_string());
            set("tls-ca-cert-file", &tls.ca);
            set("tls-cert-file", &tls.cert);
            set("tls-key-file", &tls.key);
            set("tls-auth-clients", &if tls.wants_clients { "yes" } else { "no" });
        }
        line.extend(self.args.iter().map(OsString::from));
        line
    }
}

/// A sentinel keeps what it monitors in this file.
pub(super) fn sentinel_file_in(dir: &Path) -> PathBuf {
    dir.join("sentinel.conf")
}

pub(super) fn socket_in(dir: &Path) -> PathBuf {
    dir.join("redis.sock")
}
