//! The properties of tokens that must hold, and those that must be seen.

use stateright::Property;

use super::client::{Client, Phase};
use super::rule::Windows;
use super::{ONE_ROUND, RAISED, State, TokenModel};

impl<const N: usize, const K: usize> TokenModel<N, K> {
    pub(super) fn all_properties(&self) -> Vec<Property<Self>> {
        let unique = if self.block > 1 { "blocks never overlap" } else { "tokens are unique" };
        let ordered = match self.windows {
            Windows::Unknown => "tokens are in real-time order",
            _ => "tokens are in the order of holds",
        };
        let mut properties = vec![
            Property::always(unique, |model: &Self, state: &State<N, K>| {
                !model.once.first(0, state.overlaps(model))
            }),
            Property::always(ordered, |model: &Self, state: &State<N, K>| {
                !model.once.first(1, state.has_regress(model))
            }),
            Property::sometimes("all acquisitions win", |model: &Self, state: &State<N, K>| {
                let won = |client: &Client<N>| matches!(client.phase, Phase::Returned(_));
                model.once.first(2, state.clients.iter().all(won))
            }),
            Property::sometimes("a token needs a raise", |model: &Self, _| model.once.seen(RAISED)),
            Property::sometimes("a token needs one round", |model: &Self, _| {
                model.once.seen(ONE_ROUND)
            }),
        ];
        if self.loss.form().is_some() {
            properties.push(Property::sometimes(
                "a repaired node grants",
                |model: &Self, state: &State<N, K>| {
                    model.once.first(5, state.repair.is_done() && state.nodes[0].is_held())
                },
            ));
        }
        if self.minds_grants {
            properties.push(Property::always(
                "tokens follow the grants of each node that confirmed them",
                |model: &Self, state: &State<N, K>| {
                    !model.once.first(6, state.crosses_grants(model))
                },
            ));
        }
        if self.handoff {
            properties.push(Property::sometimes(
                "a name is handed over, twice",
                |model: &Self, state: &State<N, K>| {
                    let last = |client: &Client<N>| client.handoff.is_some();
                    model.once.first(7, state.handoffs > 1 && state.clients.iter().any(last))
                },
            ));
        }
        properties
    }
}

impl<const N: usize, const K: usize> State<N, K> {
    fn tokens(&self) -> [Option<u8>; K] {
        self.clients.each_ref().map(|client| match client.phase {
            Phase::Returned(token) => Some(token),
            _ => None,
        })
    }

    /// Whether two tokens of one mark are closer than a block.
    fn overlaps(&self, model: &TokenModel<N, K>) -> bool {
        let tokens = self.tokens();
        let close = |c: usize, d: usize| {
            let both = tokens[c].zip(tokens[d]).filter(|_| model.share_mark(c, d));
            both.is_some_and(|(a, b)| a.abs_diff(b) < model.block)
        };
        (0..K).any(|c| (0..c).any(|d| close(c, d)))
    }

    /// Whether some acquisition has a token that is not larger than that of an acquisition which it
    /// comes after, of one mark.
    fn has_regress(&self, model: &TokenModel<N, K>) -> bool {
        let tokens = self.tokens();
        (0..K).any(|later| {
            let comes_after = |c: &usize| self.clients[later].after & (1 << c) != 0;
            let mut earlier =
                (0..K).filter(comes_after).filter(|earlier| model.share_mark(*earlier, later));
            tokens[later].is_some() && earlier.any(|c| tokens[c] >= tokens[later])
        })
    }

    /// Whether a node that counts for two tokens of acquisitions that exclude each other granted the
    /// name to the larger one's acquisition first.
    fn crosses_grants(&self, model: &TokenModel<N, K>) -> bool {
        let tokens = self.tokens();
        let crossed = |c: usize, d: usize| {
            let (later, earlier) = (&self.clients[c].grants, &self.clients[d].grants);
            let both = |n: &usize| later.confirmed & earlier.confirmed & (1 << n) != 0;
            (0..N).filter(both).any(|n| later.before[n] & (1 << d) != 0) && tokens[d] >= tokens[c]
        };
        let won: Vec<usize> = (0..K).filter(|c| tokens[*c].is_some()).collect();
        won.iter().any(|c| won.iter().any(|d| model.exclude(*c, *d) && crossed(*c, *d)))
    }
}
