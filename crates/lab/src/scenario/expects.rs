use super::own::OwnPlan;
use crate::mode::Mode;
use crate::record::Expected;

/// What theory predicts for each kind of mode; `None` where a scenario does not apply.
#[derive(Debug, Clone, Copy)]
pub struct Expects {
    /// One standalone node.
    pub s: Option<Expected>,
    /// One standalone node that must prove its memory.
    pub s1: Option<Expected>,
    /// One node with an asynchronous replica.
    pub r: Option<Expected>,
    /// One node with replicas whose acknowledgements are awaited.
    pub w: Option<Expected>,
    /// As `r`, and the server must prove its memory.
    pub rr: Option<Expected>,
    /// As `w`, and the server must prove its memory.
    pub ww: Option<Expected>,
    /// Whether the predictions for `r` and `w` hold behind sentinels and in a Redis Cluster too, and
    /// the scenario runs there.
    pub on_engines: bool,
    /// Plain Redlock, with any number of nodes.
    pub q: Option<Expected>,
    /// A quorum in which only nodes with proven memory vote.
    pub qq: Option<Expected>,
    /// As `qq`, and the resource checks tokens.
    pub qf: Option<Expected>,
    /// A cluster of etcd.
    pub e: Option<Expected>,
    /// A plan from a file, which has its own predictions.
    pub own: Option<&'static OwnPlan>,
}

impl Expects {
    /// Applies to no mode: the base for struct updates.
    pub const NONE: Self = Self {
        s: None,
        s1: None,
        r: None,
        w: None,
        rr: None,
        ww: None,
        on_engines: false,
        q: None,
        qq: None,
        qf: None,
        e: None,
        own: None,
    };

    /// A node forgets: two hold on one node and in plain Redlock, and not where memories must be
    /// proven. No replica takes part.
    pub const MEMORY_NEEDED: Self = Self {
        s: Some(Expected::Violation),
        s1: Some(Expected::Ok),
        q: Some(Expected::Violation),
        qq: Some(Expected::Ok),
        qf: Some(Expected::Ok),
        ..Self::NONE
    };

    /// No violation in any mode.
    pub const ALL_OK: Self = Self::in_all_modes(Expected::Ok);

    /// The same prediction in all modes.
    #[must_use]
    pub const fn in_all_modes(expected: Expected) -> Self {
        let all = Some(expected);
        Self {
            s: all,
            s1: all,
            r: all,
            w: all,
            rr: all,
            ww: all,
            on_engines: false,
            q: all,
            qq: all,
            qf: all,
            e: all,
            own: None,
        }
    }

    /// The prediction for one mode.
    #[must_use]
    pub fn of(&self, mode: Mode) -> Option<Expected> {
        if let Some(own) = self.own {
            return own.expected(mode);
        }
        match mode {
            Mode::S => self.s,
            Mode::S1 => self.s1,
            Mode::R => self.r,
            Mode::W => self.w,
            Mode::RR => self.rr,
            Mode::WW => self.ww,
            Mode::RS | Mode::RC => self.r.filter(|_| self.on_engines),
            Mode::WS | Mode::WC => self.w.filter(|_| self.on_engines),
            Mode::Q3 | Mode::Q5 | Mode::Q7 => self.q,
            Mode::QQ => self.qq,
            Mode::QF => self.qf,
            Mode::E => self.e,
        }
    }
}
