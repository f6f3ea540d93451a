//! The commands of a handshake and their replies, before other requests use the connection.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::dial::problem_of;
use super::permissions::is_forbidden;
use super::progress::{Progress, Step};
use super::resp::{self, Value};
use super::scripts::{Bound, Script, Scripts, admission_scripts};
use super::stream::Stream;
use quorumlock_protocol::NodeProblem;

/// Sends commands and awaits their replies.
pub(super) struct Talk<'a> {
    stream: &'a mut Box<dyn Stream>,
    progress: &'a mut Progress,
    buffer: Vec<u8>,
    /// The hint added to a failure before the first reply.
    hint: &'static str,
}

impl<'a> Talk<'a> {
    pub(super) fn new(
        stream: &'a mut Box<dyn Stream>,
        progress: &'a mut Progress,
        hint: &'static str,
    ) -> Self {
        Self { stream, progress, buffer: Vec::new(), hint }
    }

    /// Loads the scripts, and sends the commands of `then` behind them, in the same trip. A proxy may
    /// have put another server behind the connection since it was identified: voting scripts that are
    /// bound to an incarnation are loaded in one step in which the server revokes an incarnation that is
    /// not of its run (PROTOCOL.md ADM6). Returns the replies to `then`, or `None` if the server refuses
    /// a command of loading; then it has not loaded the bound scripts.
    pub(super) async fn load(
        &mut self,
        scripts: &Scripts,
        then: &[redis::Cmd],
    ) -> Result<Option<Vec<Value>>, NodeProblem> {
        let load = |script: &Script| script.load(false);
        let voting = scripts.voting().into_iter().map(load);
        let mut commands: Vec<_> = scripts.others().into_iter().map(load).collect();
        match &scripts.bound {
            None => commands.extend(voting),
            Some(Bound { record, .. }) => {
                // A replica, which cannot revoke, refuses the write that changes nothing, and then the
                // transaction.
                let write = redis::cmd("HDEL").arg(record).arg("").to_owned();
                let mut revoke = redis::cmd("EVAL");
                revoke.arg(admission_scripts::REVOKE).arg(1).arg(record);
                commands.extend([redis::cmd("MULTI"), write, revoke]);
                commands.extend(voting);
                commands.push(redis::cmd("EXEC"));
            }
        }
        let (error, replies) = self.ask(commands, then).await?;
        match error {
            None => Ok(Some(replies)),
            Some(text) if is_forbidden(&text) => Ok(None),
            Some(text) => match NodeProblem::from_reply(&text) {
                // A full Redis queues no transaction. Scripts that it has loaded before still vote.
                NodeProblem::OutOfMemory(_) => Ok(Some(replies)),
                problem => Err(problem),
            },
        }
    }

    /// As [`Self::load`], by `EVAL`.
    pub(super) async fn load_by_eval(
        &mut self,
        scripts: &Scripts,
        then: &[redis::Cmd],
    ) -> Result<Vec<Value>, NodeProblem> {
        let scripts = scripts.voting().into_iter().chain(scripts.others());
        let (error, replies) =
            self.ask(scripts.map(|script| script.load(true)).collect(), then).await?;
        error.map_or(Ok(replies), |text| Err(NodeProblem::from_reply(&text)))
    }

    pub(super) async fn write(&mut self, commands: &[redis::Cmd]) -> Result<(), NodeProblem> {
        let mut bytes = Vec::new();
        commands.iter().for_each(|command| command.write_packed_command(&mut bytes));
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let writing = self.stream.write(rest);
            match self.progress.step(Step::Reply, writing).await?.map_err(broken)? {
                0 => return Err(NodeProblem::Broken("the connection closed".into())),
                written => rest = &rest[written..],
            }
        }
        self.progress.step(Step::Reply, self.stream.flush()).await?.map_err(broken)
    }

    /// The next reply.
    pub(super) async fn receive(&mut self) -> Result<Value, NodeProblem> {
        loop {
            match resp::decode(&self.buffer) {
                Ok(Some((value, len))) => {
                    self.buffer.drain(..len);
                    self.hint = "";
                    return Ok(value);
                }
                Ok(None) => {}
                Err(malformed) => {
                    return Err(NodeProblem::Malformed(format!("{}{}", malformed.0, self.hint)));
                }
            }
            let hinted = |what: &str| NodeProblem::Broken(format!("{what}{}", self.hint));
            let reading = self.stream.read_buf(&mut self.buffer);
            match self.progress.step(Step::Reply, reading).await? {
                Ok(0) => return Err(hinted("closed by the server at once")),
                Err(e) => return Err(problem_of(&e, |what| hinted(&what))),
                Ok(_) => {}
            }
        }
    }

    /// Sends the commands and those of `then`. Returns the first error among the replies to the
    /// commands, and the replies to `then`.
    async fn ask(
        &mut self,
        mut commands: Vec<redis::Cmd>,
        then: &[redis::Cmd],
    ) -> Result<(Option<String>, Vec<Value>), NodeProblem> {
        let asked = commands.len();
        commands.extend_from_slice(then);
        self.write(&commands).await?;
        let mut first = None;
        for _ in 0..asked {
            let error = error_in(self.receive().await?);
            first = first.or(error);
        }
        let mut replies = Vec::with_capacity(then.len());
        for _ in then {
            replies.push(self.receive().await?);
        }
        Ok((first, replies))
    }
}

/// The first error of a reply, also of one to a transaction.
fn error_in(reply: Value) -> Option<String> {
    match reply {
        Value::Error(text) => Some(text),
        Value::Array(replies) => replies.into_iter().find_map(error_in),
        _ => None,
    }
}

fn broken(e: std::io::Error) -> NodeProblem {
    problem_of(&e, NodeProblem::Broken)
}
