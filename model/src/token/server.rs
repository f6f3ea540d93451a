use super::rule::Rule;

/// The state of one node for one slot, and for one name in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    /// The largest token that the node has accepted.
    pub(super) mark: u8,
    /// The acquisition that holds the name.
    pub(super) holder: Option<u8>,
    /// The node lost its data and has not been admitted again.
    pub(super) amnesic: bool,
    /// The incarnation of the node, to which requests are bound where the model binds them.
    pub(super) incarnation: u8,
    /// The acquisitions to which the node has granted the name, as bits; kept only with
    /// `minds_grants`.
    pub(super) granted: u8,
}

/// Whether a node accepts a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Verdict {
    Accepted,
    /// It does not: its mark, given here, is not below the token.
    Behind(u8),
}

/// The answer of a node to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reply {
    /// The node holds the client's nonce.
    Yes(Verdict),
    /// Another acquisition holds the name. What became of the token matters to
    /// [`Rule::DenierConfirms`] alone.
    Busy(Verdict),
    /// This nonce does not hold the name, or no longer holds it.
    Gone,
    /// The node's memory must be verified first.
    Unproven,
}

impl Server {
    pub(super) fn new(mark: u8) -> Self {
        Self { mark, holder: None, amnesic: false, incarnation: 0, granted: 0 }
    }

    /// Grants the name if it is free, and accepts the token in the same step.
    pub(super) fn acquire(&mut self, client: usize, token: u8, rule: Rule) -> Reply {
        let me = client as u8;
        if self.amnesic {
            return Reply::Unproven;
        }
        if self.holder.is_some_and(|holder| holder != me) {
            return match rule {
                Rule::DenierConfirms => Reply::Busy(self.accept(token, rule)),
                _ => Reply::Busy(Verdict::Behind(0)),
            };
        }
        self.holder = Some(me);
        Reply::Yes(self.accept(token, rule))
    }

    /// Accepts another token of the acquisition that holds the name.
    pub(super) fn raise(&mut self, client: usize, token: u8, rule: Rule) -> Reply {
        if self.amnesic {
            return Reply::Unproven;
        }
        if self.holder != Some(client as u8) && rule != Rule::RaiseUnheld {
            return Reply::Gone;
        }
        Reply::Yes(self.accept(token, rule))
    }

    fn accept(&mut self, token: u8, rule: Rule) -> Verdict {
        if token > self.mark || rule == Rule::EqualAccepted && token == self.mark {
            self.mark = token;
            return Verdict::Accepted;
        }
        Verdict::Behind(self.mark)
    }

    /// A release hands the name to `client`. Returns the token of the grant; `None` if the node has
    /// no mark, or has lost its data.
    pub(super) fn hand_off(&mut self, client: usize, block: u8, rule: Rule) -> Option<u8> {
        if self.mark == 0 || self.amnesic {
            return None;
        }
        self.holder = Some(client as u8);
        self.mark = match rule {
            Rule::HandsNextNumber => self.mark + 1,
            _ => self.mark / block * block + 2 * block - 1,
        };
        Some(self.mark)
    }
}
