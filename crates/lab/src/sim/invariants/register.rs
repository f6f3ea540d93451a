//! Fenced effects (G4): at a resource that refuses old tokens, and whose holders claim before they
//! read, no update is lost, however late a paused holder writes.

use super::Violation;

/// A resource that checks tokens (A8): a counter that each holder raises by one.
#[derive(Debug, Default)]
pub(in crate::sim) struct Register {
    highest: u64,
    value: u64,
}

impl Register {
    /// Claims, then reads; `None` if a newer holder was here.
    pub(in crate::sim) fn claim(&mut self, token: u64) -> Option<u64> {
        self.accepts(token).then_some(self.value)
    }

    /// Writes what follows from having read `read`. `Ok(false)`: refused.
    pub(in crate::sim) fn write(&mut self, token: u64, read: u64) -> Result<bool, Violation> {
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
