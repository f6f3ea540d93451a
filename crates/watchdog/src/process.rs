use quorumlock_protocol::ConfigError;

/// The process that started a thread. A fork of it has a copy of what the thread shares, but not the
/// thread.
#[derive(Clone, Copy, Debug)]
pub struct Process(u32);

impl Process {
    /// This process.
    pub fn current() -> Self {
        Self(std::process::id())
    }

    /// Costs a system call.
    ///
    /// # Errors
    /// [`ConfigError::Forked`] in another process than that of [`Process::current`].
    pub fn check(self) -> Result<(), ConfigError> {
        match std::process::id() {
            here if here == self.0 => Ok(()),
            here => Err(ConfigError::Forked { made_by: self.0, here }),
        }
    }
}
