//! Fenced effects (G4): a resource refuses old tokens, and holders claim it before they read. Then
//! no update is lost, however late a paused holder writes.

use crate::violation::Violation;

/// A resource that checks tokens (A8): a counter that each holder increments.
#[derive(Debug, Default)]
pub struct Register {
    /// The largest token of all.
    highest: u64,
    /// The largest token of a holder that writes.
    written: u64,
    value: u64,
}

impl Register {
    /// Claims the resource with `token`, then reads it. `None`: a holder with a larger token was
    /// here before.
    pub fn claim(&mut self, token: u64) -> Option<u64> {
        let value = self.accepts(token).then_some(self.value)?;
        self.written = token;
        Some(value)
    }

    /// Reads the resource, for a holder that only reads. `None`: a holder that writes, with a larger token,
    /// was here before.
    pub fn read(&mut self, token: u64) -> Option<u64> {
        self.highest = self.highest.max(token);
        (token >= self.written).then_some(self.value)
    }

    /// Writes the increment of the value `read`. `Ok(false)`: the resource refuses the token.
    pub fn write(&mut self, token: u64, read: u64) -> Result<bool, Violation> {
        if !self.accepts(token) {
            return Ok(false);
        }
        if read != self.value {
            return Err(Violation::LostUpdate { token });
        }
        self.value = read + 1;
        Ok(true)
    }

    fn accepts(&mut self, token: u64) -> bool {
        let current = token >= self.highest;
        self.highest = self.highest.max(token);
        current
    }
}
