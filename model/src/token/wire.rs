use super::server::Reply;

/// The messages between one client and one node: requests and answers, late or lost, in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Wire(Vec<Message>);

/// The request to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// To grant the name, and to accept the first token.
    Name,
    /// To accept this token.
    Token(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Message {
    pub(super) what: What,
    pub(super) way: Way,
}

/// The progress of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Way {
    Asked,
    /// The client no longer waits for the answer; the node may still carry out the request.
    Late,
    Answered(Reply),
}

impl Message {
    pub(super) fn is_request(&self) -> bool {
        matches!(self.way, Way::Asked | Way::Late)
    }
}

impl Wire {
    pub(super) fn messages(&self) -> impl Iterator<Item = &Message> {
        self.0.iter()
    }

    pub(super) fn requests(&self) -> impl Iterator<Item = What> + '_ {
        self.0.iter().filter(|message| message.is_request()).map(|message| message.what)
    }

    pub(super) fn ask(&mut self, what: What) {
        self.0.push(Message { what, way: Way::Asked });
    }

    /// Notes that the node has carried out the request.
    pub(super) fn answer(&mut self, what: What, said: Reply) {
        let at = self.0.iter().position(|message| message.what == what);
        let Some(at) = at else { return };
        match self.0[at].way {
            Way::Late => drop(self.0.remove(at)),
            _ => self.0[at].way = Way::Answered(said),
        }
    }

    /// The client receives the answer, if there is one.
    pub(super) fn take(&mut self, what: What) -> Option<Reply> {
        let at = self.0.iter().position(|message| message.what == what)?;
        match self.0.remove(at).way {
            Way::Answered(said) => Some(said),
            _ => None,
        }
    }

    /// The client no longer waits for this answer.
    pub(super) fn give_up(&mut self, what: What) {
        self.0.iter_mut().filter(|message| message.what == what).for_each(|m| m.way = Way::Late);
    }

    /// The client no longer waits for any answer.
    pub(super) fn abandon(&mut self) {
        self.0.retain(Message::is_request);
        self.0.iter_mut().for_each(|message| message.way = Way::Late);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn asks_for(&self, wanted: impl Fn(What) -> bool) -> bool {
        self.requests().any(wanted)
    }
}
