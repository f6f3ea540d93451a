use std::mem;
use std::time::Duration;

use quorumlock_protocol::expiry;
use quorumlock_protocol::round::{Round, Step};
use quorumlock_protocol::{
    Acceptance, Answer, Denial, FencingToken, Instant, NodeProblem, NodeReport, Vote, Window,
};

use super::model::{LeaseModel, N, SECOND, at};
use super::server::{Reply, Server};
use crate::debug_hashed::DebugHashed;

/// One acquisition, and the lease that it becomes if it wins.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) phase: Phase,
    /// The acquisition, then the renewals.
    calls: [Call; 3],
    /// Where there is a takeover delay, the first tick at which the holder could not rely on its lease
    /// any more, by any answer that it has had. 0 without a lease, after a release, and once the tick
    /// at which others may hold is past.
    relied_until: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Idle,
    Asking(DebugHashed<Round>),
    Holding(DebugHashed<Window>),
    Over,
}

/// One request to all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Call {
    begun: bool,
    asked: u8,
    ttl: u8,
    wires: [Wire; N],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Wire {
    #[default]
    Nothing,
    Asked,
    Answered(Reply),
}

/// This model does not check tokens: every client proposes the same one.
const FENCE: FencingToken = FencingToken::new(1);

impl Call {
    fn begin(now: u8, ttl: u8) -> Self {
        Self { begun: true, asked: now, ttl, wires: [Wire::Asked; N] }
    }

    /// The instant until which a yes counts, computed by the library's `expiry`. The drift is 0:
    /// clocks are exact here.
    fn until(&self) -> Instant {
        expiry(at(self.asked), SECOND * u32::from(self.ttl), 0.0)
    }
}

impl Client {
    pub(super) fn new() -> Self {
        Self { phase: Phase::Idle, calls: Default::default(), relied_until: 0 }
    }

    pub(super) fn start(&mut self, now: u8, ttl: u8) {
        self.phase = Phase::Asking(DebugHashed::new(Round::new(N, 0, FENCE)));
        self.calls[0] = Call::begin(now, ttl);
    }

    pub(super) fn renewals_begun(&self) -> usize {
        self.calls[1..].iter().filter(|call| call.begun).count()
    }

    pub(super) fn renew(&mut self, now: u8, ttl: u8) {
        self.calls[self.renewals_begun() + 1] = Call::begin(now, ttl);
    }

    pub(super) fn wires(&self, mut each: impl FnMut(usize, usize, Wire)) {
        for (k, call) in self.calls.iter().enumerate() {
            for (n, wire) in call.wires.iter().enumerate() {
                each(k, n, *wire);
            }
        }
    }

    pub(super) fn serve<const C: usize>(
        &mut self,
        me: usize,
        node: &mut Server,
        n: usize,
        k: usize,
        now: u8,
        model: &LeaseModel<C>,
    ) {
        let said = match k {
            0 => node.acquire(model.asks(me), now),
            _ => node.renew(model.asks(me), now, model.regrants),
        };
        let over = self.phase == Phase::Over;
        self.calls[k].wires[n] = if over { Wire::Nothing } else { Wire::Answered(said) };
    }

    pub(super) fn receive(&mut self, n: usize, k: usize, now: u8, delay: u8) {
        let call = &mut self.calls[k];
        let until = call.until();
        let Wire::Answered(said) = mem::take(&mut call.wires[n]) else { return };
        match &self.phase {
            Phase::Asking(round) => {
                let mut round = Round::clone(round);
                let step = round.on_answer(n, answer(said, until), at(now));
                self.phase = match step {
                    Step::Won(_) => Phase::Holding(DebugHashed::new(round.window())),
                    Step::Failed => Phase::Over,
                    _ => Phase::Asking(DebugHashed::new(round)),
                };
            }
            // The library's lease table records it in the same way.
            Phase::Holding(window) => {
                let mut window = Window::clone(window);
                match said {
                    Reply::Yes => window.record_held(n, until),
                    Reply::No if k > 0 => window.record_lost(n),
                    // The old vote stays. The library drops it, so the model is more permissive
                    // here.
                    Reply::No | Reply::Uncounted => {}
                }
                self.phase = Phase::Holding(DebugHashed::new(window));
            }
            Phase::Idle | Phase::Over => {}
        }
        if let Phase::Holding(window) = &self.phase
            && delay > 0
        {
            self.relied_until = self.relied_until.max(tick_from(window.until()));
        }
        self.pass(now, delay);
    }

    /// Loss is final.
    pub(super) fn pass(&mut self, now: u8, delay: u8) {
        if self.relied_until + delay < now {
            self.relied_until = 0;
        }
        let lost = match &self.phase {
            Phase::Asking(_) => self.calls[0].until() <= at(now),
            Phase::Holding(window) => window.until() <= at(now),
            Phase::Idle | Phase::Over => false,
        };
        if lost {
            self.end();
        }
    }

    /// A holder that releases its lease relies on nothing from now on.
    pub(super) fn release(&mut self) {
        self.relied_until = 0;
        self.end();
    }

    /// Requests that are on their way may still be carried out.
    fn end(&mut self) {
        self.phase = Phase::Over;
        for call in &mut self.calls {
            let asked =
                |wire: &Wire| if *wire == Wire::Asked { Wire::Asked } else { Wire::Nothing };
            *call =
                Call { asked: 0, ttl: 0, begun: false, wires: call.wires.each_ref().map(asked) };
        }
    }

    pub(super) fn forget(&mut self) {
        *self = Self { phase: Phase::Over, relied_until: self.relied_until, ..Self::new() };
    }

    pub(super) fn holds(&self) -> bool {
        matches!(self.phase, Phase::Holding(_))
    }

    pub(super) fn believes(&self, now: u8) -> bool {
        matches!(&self.phase, Phase::Holding(window) if window.until() > at(now))
    }

    /// The tick from which others may hold what this client has lost; `None` if that is past, and if
    /// it has lost nothing.
    pub(super) fn takeover_at(&self, delay: u8) -> Option<u8> {
        (self.phase == Phase::Over && self.relied_until > 0).then_some(self.relied_until + delay)
    }

    pub(super) fn was_renewed(&self, now: u8) -> bool {
        self.believes(now) && self.calls[0].until() <= at(now)
    }

    /// e_n: the instant until which, as far as the client knows, node `n` surely holds the lock for
    /// it.
    pub(super) fn held_until(&self, n: usize) -> Instant {
        let mut window = match &self.phase {
            Phase::Asking(round) => round.window(),
            Phase::Holding(window) => Window::clone(window),
            Phase::Idle | Phase::Over => return Instant::NEVER,
        };
        // A window shows only its q-th largest end. With these two records that is the end of node
        // `n`.
        let others = [(n + 1) % N, (n + 2) % N];
        window.record_held(others[0], Instant::NEVER + Duration::MAX);
        window.record_lost(others[1]);
        window.until()
    }
}

/// The first tick from this instant on.
fn tick_from(instant: Instant) -> u8 {
    (0..u8::MAX).find(|tick| instant <= at(*tick)).unwrap_or(u8::MAX)
}

fn answer(said: Reply, until: Instant) -> Answer<Vote> {
    match said {
        Reply::Yes => Answer::Yes(Vote { until, token: Acceptance::Accepted }),
        Reply::No => Answer::No(Denial::Busy(None)),
        Reply::Uncounted => {
            Answer::No(Denial::NotAdmitted(NodeReport::new("", NodeProblem::NotAdmitted)))
        }
    }
}
