use super::rule::Rule;

/// One node, as far as one slot goes, and one name in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    /// The largest token that it has accepted.
    pub(super) mark: u8,
    /// The acquisition that holds the name.
    pub(super) holder: Option<u8>,
    /// It lost its data and has not been admitted again.
    pub(super) amnesic: bool,
    /// What requests are bound to, where they are.
    pub(super) stamp: u8,
    /// The acquisitions to which it has granted the name, as bits; kept only where their order is
    /// minded.
    pub(super) granted: u8,
}

/// Whether a node accepts a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Verdict {
    Accepted,
    /// Its mark is this.
    Behind(u8),
}

/// What a node says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Said {
    /// It holds the nonce.
    Yes(Verdict),
    /// The name is somebody else's. What became of the token is of interest to
    /// [`Rule::DenierConfirms`] alone.
    Busy(Verdict),
    /// The name is not this nonce's (any more).
    Gone,
    /// Its memory must be verified first.
    Unproven,
}

impl Server {
    pub(super) fn new(mark: u8) -> Self {
        Self { mark, holder: None, amnesic: false, stamp: 0, granted: 0 }
    }

    /// Grants the name if it is free, and accepts the token in the same step.
    pub(super) fn acquire(&mut self, client: usize, token: u8, rule: Rule) -> Said {
        let me = client as u8;
        if self.amnesic {
            return Said::Unproven;
        }
        if self.holder.is_some_and(|holder| holder != me) {
            return match rule {
                Rule::DenierConfirms => Said::Busy(self.accept(token, rule)),
                _ => Said::Busy(Verdict::Behind(0)),
            };
        }
        self.holder = Some(me);
        Said::Yes(self.accept(token, rule))
    }

    /// Accepts another token of the acquisition that holds the name.
    pub(super) fn raise(&mut self, client: usize, token: u8, rule: Rule) -> Said {
        if self.amnesic {
            return Said::Unproven;
        }
        if self.holder != Some(client as u8) && rule != Rule::RaiseUnheld {
            return Said::Gone;
        }
        Said::Yes(self.accept(token, rule))
    }

    fn accept(&mut self, token: u8, rule: Rule) -> Verdict {
        if token > self.mark || rule == Rule::EqualAccepted && token == self.mark {
            self.mark = token;
            return Verdict::Accepted;
        }
        Verdict::Behind(self.mark)
    }

    /// A release hands the name over: with which token. `None` without a mark.
    pub(super) fn hand(&mut self, client: usize, block: u8, rule: Rule) -> Option<u8> {
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
