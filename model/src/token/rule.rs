//! What a search follows: the rules of clients and nodes, right and planted.

/// Which rule the clients and the nodes follow. The decision is always the library's own `Round`:
/// bugs are planted in what it is told and in what the nodes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The library's.
    Library,
    /// Planted, M2: a node that refused the name, but whose mark moved to the token, counts.
    DenierConfirms,
    /// Planted, M2b: a raise is taken for accepted by a node that no longer holds the nonce.
    GoneConfirms,
    /// Planted, M2c: a node that granted the name counts, though it did not accept the token.
    GrantConfirms,
    /// Planted, M2d: the acceptance of an earlier proposal counts for the present one.
    OlderConfirms,
    /// Planted, M3: nodes accept a raise without a look at the holder.
    RaiseUnheld,
    /// Planted, M13: nodes accept a token that equals their mark.
    EqualAccepted,
    /// Planted, M15c: an acceptance counts for longer than its node surely holds the nonce.
    BeyondWindow,
    /// Planted, M17: proposals are any numbers, not ends of blocks.
    Unrounded,
    /// Planted, M18: a name is handed over with the next number, not with the next block.
    HandsNextNumber,
}

/// What becomes of a node that loses its data, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No node does.
    Never,
    /// It goes on as if nothing had happened.
    Unguarded,
    /// It never counts again.
    Excluded,
    /// It counts again, with marks that the others show.
    Repaired(Form),
}

/// How the repair deals with acquisitions that count a vote of the node from before its loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Planted, M8: not at all.
    Naive,
    /// As the library: a helper takes a fresh stamp in the step in which it shows its mark, and
    /// carries out no request that is bound to another. All requests of an acquisition are bound
    /// when it starts.
    Stamps,
    /// Planted, M8e: a raise is bound when it is sent.
    StampsWhenSent,
    /// Planted, M8g: one helper's mark is enough.
    Minority,
}

impl Loss {
    pub(super) fn form(self) -> Option<Form> {
        match self {
            Self::Repaired(form) => Some(form),
            _ => None,
        }
    }

    /// Whether requests are bound to the stamps of nodes.
    pub(super) fn binds(self) -> bool {
        self.form().is_some_and(|form| form != Form::Naive)
    }
}

/// What is known of the time for which nodes hold a nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    /// Nothing: keys go at any moment.
    Unknown,
    /// All nodes are asked at once, and windows are right: no key goes before its client has
    /// released it or given up.
    Right,
    /// Windows are right, but node 0 is asked first: its window shuts before those of the others.
    HomeFirst,
}
