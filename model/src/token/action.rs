use super::wire::What;

/// One step of the world. The first numbers are those of the client and the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A client asks all nodes for the name, and proposes this token.
    Start(usize, u8),
    /// The same as [`Action::Start`], and a node carries the request out in the same step.
    Begin(usize, usize, u8),
    /// A node carries out a request of the client.
    Serve(usize, usize, What),
    /// The client hears the node's answer.
    Receive(usize, usize, What),
    /// The client is told that no answer will come.
    NoAnswer(usize, usize, What),
    /// The client proposes another token.
    Propose(usize, u8),
    /// The client's window of node 0 shuts.
    Late(usize),
    /// The client stops waiting.
    Close(usize),
    /// A node no longer holds this key of its claim for an acquisition: node, key, client.
    Expire(usize, usize, usize),
    /// A node carries out the client's acquire request a second time, after the name became free
    /// there.
    Again(usize, usize),
    /// The node's mark moves for a client that is refused.
    Nudge(usize, u8),
    /// The holder's release hands the name to this client, which has proposed this token.
    HandOff(usize, usize, u8),
    /// The client hears of the handoff.
    ReceiveHandoff(usize),
    /// Node 0 loses its data. Nodes are interchangeable, so node 0 stands for any of them.
    Lose,
    /// A node shows its mark to the repair of node 0.
    Show(usize),
    /// Node 0 is admitted again.
    Admit,
}
