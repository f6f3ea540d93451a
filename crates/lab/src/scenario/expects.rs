use crate::mode::Mode;
use crate::record::Expected;

/// What theory says of each kind of mode; `None` where a scenario means nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expects {
    /// One standalone node.
    pub s: Option<Expected>,
    /// With an asynchronous replica.
    pub r: Option<Expected>,
    /// With awaited replicas.
    pub w: Option<Expected>,
    /// Plain Redlock on however many nodes.
    pub q: Option<Expected>,
    /// Proven memory.
    pub qq: Option<Expected>,
    /// Proven memory and a resource that checks tokens.
    pub qf: Option<Expected>,
}

impl Expects {
    /// It means nothing anywhere: the base of others.
    pub const NONE: Self = Self { s: None, r: None, w: None, q: None, qq: None, qf: None };

    /// No violation in any mode.
    pub const ALL_OK: Self = Self::everywhere(Expected::Ok);

    /// The same in all modes.
    #[must_use]
    pub const fn everywhere(expected: Expected) -> Self {
        let all = Some(expected);
        Self { s: all, r: all, w: all, q: all, qq: all, qf: all }
    }

    /// For one mode.
    #[must_use]
    pub fn of(&self, mode: Mode) -> Option<Expected> {
        match mode {
            Mode::S => self.s,
            Mode::R => self.r,
            Mode::W => self.w,
            Mode::Q3 | Mode::Q5 | Mode::Q7 => self.q,
            Mode::QQ => self.qq,
            Mode::QF => self.qf,
        }
    }
}
