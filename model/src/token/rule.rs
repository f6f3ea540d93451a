//! The rules that clients and nodes follow in a search: the library's rule and planted bugs.

/// The rule that the clients and the nodes follow. The decision is always the library's own
/// `Round`: a planted bug changes the answers that the round receives, or what the nodes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The library's rule.
    Library,
    /// Planted, M2: a node that refused the name, but whose mark moved to the token, counts.
    DenierConfirms,
    /// Planted, M2b: a client takes a raise for accepted at a node that no longer holds the nonce.
    GoneConfirms,
    /// Planted, M2c: a node that granted the name counts although it did not accept the token.
    GrantConfirms,
    /// Planted, M2d: the acceptance of an earlier proposal counts for the present one.
    OlderConfirms,
    /// Planted, M3: nodes accept a raise without checking the holder.
    RaiseUnheld,
    /// Planted, M23: nodes accept a raise while they hold one of the claim's names, not all.
    RaisePartlyHeld,
    /// Planted, M23: a node has accepted a token if one of the claim's marks has.
    OneMarkConfirms,
    /// Planted, M13: nodes accept a token that equals their mark.
    EqualAccepted,
    /// Planted, M15c: an acceptance counts for longer than its node surely holds the nonce.
    BeyondWindow,
    /// Planted, M17: clients propose any numbers, not only the last tokens of blocks.
    Unrounded,
    /// Planted, M18: a handoff uses the next number, not the end of the next block.
    HandsNextNumber,
}

/// What happens to a node that loses its data. At most one loss occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No node loses its data.
    Never,
    /// The node continues to vote as if nothing had happened.
    Unguarded,
    /// The node is never admitted again.
    Excluded,
    /// The node is admitted again, with marks that the other nodes show.
    Repaired(Form),
}

/// How the repair deals with acquisitions that count a vote of the node from before its loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Planted, M8: it does not deal with them.
    Naive,
    /// As in the library: a helper takes a fresh incarnation in the step in which it shows its
    /// mark, and then carries out no request that is bound to another incarnation. All requests of
    /// an acquisition are bound when it starts.
    Incarnations,
    /// Planted, M8e (ADM3): a raise is bound when the client sends it.
    IncarnationsWhenSent,
    /// Planted, M8g: the mark of one helper is enough.
    Minority,
}

impl Loss {
    pub(super) fn form(self) -> Option<Form> {
        match self {
            Self::Repaired(form) => Some(form),
            _ => None,
        }
    }

    /// Whether requests are bound to the incarnations of nodes.
    pub(super) fn binds(self) -> bool {
        self.form().is_some_and(|form| form != Form::Naive)
    }
}

/// What clients know about how long nodes hold a nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    /// Nothing: a key may disappear at any moment.
    Unknown,
    /// All nodes are asked at once, and windows are right: no key disappears before its client has
    /// released it or given up.
    Right,
    /// Windows are right, but node 0, the home node, is asked first: its window shuts before those
    /// of the others.
    HomeFirst,
}
