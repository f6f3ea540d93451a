use super::{Action, Form, Loss, N, Q, Rule};

/// One node, as far as one name goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    pub(super) counter: u8,
    /// The acquisition that holds the key.
    pub(super) holder: Option<u8>,
    /// The largest counter that it granted, or was raised to; kept only where the repair asks for no
    /// more.
    granted: u8,
    /// Which life of node 0 its data are of; kept only where there is a barrier.
    pub(super) life: u8,
    /// It lost its data and has not been admitted again.
    pub(super) amnesic: bool,
    /// The latest life of node 0 that it has noted: its stamp.
    pub(super) noted: u8,
}

/// What a node says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Said {
    /// Yes, and its counter.
    Yes(u8),
    /// Somebody else's; its counter, where that is of interest.
    Busy(u8),
    /// The key is not this nonce's (any more).
    Gone,
    /// It may not count.
    Refused,
}

/// An answer on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Answer {
    pub(super) said: Said,
    /// As [`Server::life`].
    pub(super) life: u8,
    /// As [`Server::noted`].
    pub(super) noted: u8,
}

impl Server {
    pub(super) fn new(counter: u8) -> Self {
        Self { counter, holder: None, granted: 0, life: 0, amnesic: false, noted: 0 }
    }

    pub(super) fn acquire(&mut self, client: usize, rule: Rule, loss: Loss, nudges: u8) -> Answer {
        let said = match self.holder {
            _ if self.amnesic => Said::Refused,
            // Told only where somebody looks at it: else it is one state more for nothing.
            Some(_) if rule == Rule::DenierConfirms => Said::Busy(self.counter),
            Some(_) => Said::Busy(0),
            None => {
                self.holder = Some(client as u8);
                self.counter += 1;
                if loss == Loss::Repaired(Form::StampsOfGrants) || nudges > 0 {
                    self.granted = self.counter;
                }
                Said::Yes(self.counter)
            }
        };
        self.answer(said)
    }

    pub(super) fn raise(&mut self, client: usize, token: u8, rule: Rule, nudges: u8) -> Answer {
        let held = self.holder == Some(client as u8) || rule == Rule::RaiseUnheld;
        let said = match held {
            _ if self.amnesic => Said::Refused,
            false => Said::Gone,
            true if self.counter >= token && !rule.confirms_unraised() => Said::Refused,
            true => {
                self.counter = self.counter.max(token);
                if nudges > 0 {
                    self.granted = self.granted.max(token);
                }
                Said::Yes(token)
            }
        };
        self.answer(said)
    }

    pub(super) fn answer(&self, said: Said) -> Answer {
        Answer { said, life: self.life, noted: self.noted }
    }
}

/// The repair of node 0.
///
/// The gap that the real repair adds (2^20) is left out: no bounded history could cross it, and it
/// would hide the very race that this looks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Repair {
    lost: bool,
    done: bool,
    shown: [Option<u8>; N],
}

impl Repair {
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    pub(super) fn has_shown(&self, node: usize) -> bool {
        self.done || self.shown[node].is_some()
    }

    pub(super) fn actions(&self, loss: Loss, nodes: &[Server; N], actions: &mut Vec<Action>) {
        if !self.lost {
            actions.push(Action::Lose);
        }
        if loss.form().is_none() || !nodes[0].amnesic {
            return;
        }
        if self.shown.iter().flatten().count() >= Q {
            actions.push(Action::Admit);
        }
        actions.extend((1..N).filter(|n| self.shown[*n].is_none()).map(Action::Show));
    }

    pub(super) fn lose(&mut self, loss: Loss, nodes: &mut [Server; N]) {
        self.lost = true;
        let life = u8::from(loss.form().is_some_and(|form| form != Form::Naive));
        nodes[0] = Server { life, amnesic: loss != Loss::Unguarded, ..Server::new(0) };
        nodes[0].noted = life;
    }

    /// One script on the helper: the note and the counter belong together.
    pub(super) fn show(&mut self, helper: usize, loss: Loss, nudges: u8, nodes: &mut [Server; N]) {
        let node = &mut nodes[helper];
        if loss != Loss::Repaired(Form::Naive) {
            node.noted = 1;
        }
        // What moved for whoever was refused is nobody's token.
        let of_grants = loss == Loss::Repaired(Form::StampsOfGrants) || nudges > 0;
        self.shown[helper] = Some(if of_grants { node.granted } else { node.counter });
    }

    pub(super) fn admit(&mut self, nodes: &mut [Server; N]) {
        nodes[0].counter = self.shown.iter().flatten().copied().max().unwrap_or(0);
        nodes[0].amnesic = false;
        *self = Self { lost: true, done: true, shown: [None; N] };
    }
}
