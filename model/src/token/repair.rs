use quorumlock_protocol::quorum_of;

use super::action::Action;
use super::rule::{Form, Loss};
use super::server::Server;

/// The repair of node 0 after it has lost its data.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Repair<const N: usize> {
    pub(super) lost: bool,
    done: bool,
    /// The marks that the other nodes have shown to the repair.
    shown: [Option<u8>; N],
}

impl<const N: usize> Repair<N> {
    pub(super) fn new() -> Self {
        Self { lost: false, done: false, shown: [None; N] }
    }

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
        let (Some(form), true) = (loss.form(), nodes[0].amnesic) else { return };
        let enough = if form == Form::Minority { 1 } else { quorum_of(N) };
        if self.shown.iter().flatten().count() >= enough {
            actions.push(Action::Admit);
        }
        actions.extend((1..N).filter(|n| self.shown[*n].is_none()).map(Action::Show));
    }

    pub(super) fn lose(&mut self, loss: Loss, nodes: &mut [Server; N]) {
        self.lost = true;
        let incarnation = u8::from(loss.binds());
        nodes[0] = Server { amnesic: loss != Loss::Unguarded, incarnation, ..Server::new(0) };
    }

    /// One script on the helper: it takes the fresh incarnation and reads the mark in the same
    /// step.
    pub(super) fn show(&mut self, helper: usize, loss: Loss, nodes: &mut [Server; N]) {
        nodes[helper].incarnation = u8::from(loss.binds());
        self.shown[helper] = Some(nodes[helper].marks[0]);
    }

    pub(super) fn admit(&mut self, nodes: &mut [Server; N]) {
        nodes[0].marks[0] = self.shown.iter().flatten().copied().max().unwrap_or(0);
        nodes[0].amnesic = false;
        *self = Self { lost: true, done: true, shown: [None; N] };
    }
}
