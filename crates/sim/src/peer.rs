//! The server's end of a connection: transactions, subscriptions, scripts.

use quorumlock_protocol::Nonce;

use super::bug::Bug;
use super::commands::{Published, is_write};
use super::lease_command::LeaseCommand;
use super::resp::{Args, Reply};
use super::script::Script;
use super::server::Server;
use super::sometimes::Sometimes;
use super::time::Micros;

/// The server's end of one connection.
#[derive(Debug, Default)]
pub struct Peer {
    pub number: usize,
    pub client: usize,
    transaction: Option<Vec<Queued>>,
    /// A command of the transaction was refused: none is executed.
    aborted: bool,
    pub channels: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Queued {
    args: Vec<Vec<u8>>,
    lease_command: LeaseCommand,
}

/// What a server did for one command.
#[derive(Debug, Default)]
pub struct Effects {
    /// The reply, if the command was executed.
    pub reply: Option<Reply>,
    /// The commands of a transaction, and their replies.
    pub transaction: Vec<(LeaseCommand, Reply)>,
    pub published: Vec<Published>,
    pub seen: Vec<Sometimes>,
}

impl Peer {
    pub fn new(number: usize, client: usize) -> Self {
        Self { number, client, ..Self::default() }
    }

    /// Executes a command, and appends its replies.
    pub fn command(
        &mut self,
        server: &mut Server,
        (args, lease_command): (Args<'_>, &LeaseCommand),
        now: Micros,
        out: &mut Vec<u8>,
    ) -> Effects {
        let mut effects = Effects::default();
        server.commands += 1;
        if now < server.run.loading_until {
            let text = "LOADING Redis is loading the dataset in memory".to_owned();
            Reply::Error(text).write(out);
            return effects;
        }
        let reply = match args.get(0) {
            b"EXEC" => self.end_transaction(server, now, &mut effects),
            b"MULTI" if server.forbids_transactions => {
                Reply::Error("NOPERM this user has no permissions to run 'multi'".to_owned())
            }
            b"MULTI" => {
                (self.transaction, self.aborted) = (Some(Vec::new()), false);
                Reply::OK
            }
            name if self.transaction.is_some() => {
                let args = args.iter().map(<[u8]>::to_vec).collect();
                let lease_command = lease_command.clone();
                self.transaction.get_or_insert_default().push(Queued { args, lease_command });
                let refused =
                    server.run_identity.is_replica() && is_write(name, server.has_delifeq);
                self.aborted |= refused;
                if refused { Reply::read_only() } else { Reply::Status("QUEUED") }
            }
            b"SUBSCRIBE" | b"UNSUBSCRIBE" => {
                for channel in args.iter().skip(1) {
                    self.subscribe(server, args.get(0) == b"SUBSCRIBE", channel).write(out);
                }
                return effects;
            }
            b"CLIENT" | b"AUTH" | b"HELLO" => Reply::OK,
            b"PING" => Reply::Status("PONG"),
            _ => {
                let args = args.to_vec();
                let (reply, published) = self.run(server, &args, lease_command, now);
                effects.published = published;
                effects.seen.extend(refusal(&reply));
                match altered_info(server, &args) {
                    Some(altered) => altered.write(out),
                    None => reply.write(out),
                }
                effects.reply = Some(reply);
                return effects;
            }
        };
        reply.write(out);
        effects
    }

    /// Runs one command that is neither queued nor of the connection.
    fn run(
        &self,
        server: &mut Server,
        args: &[&[u8]],
        lease_command: &LeaseCommand,
        now: Micros,
    ) -> (Reply, Vec<Published>) {
        match args {
            [b"SCRIPT", b"LOAD", text] => (server.load(text), Vec::new()),
            [b"SCRIPT", b"EXISTS", digest] => {
                let loaded = server.has_script(digest);
                (Reply::Array(vec![Reply::Int(loaded.into())]), Vec::new())
            }
            [b"SCRIPT", b"FLUSH"] => {
                server.run_identity.scripts.clear();
                (Reply::OK, Vec::new())
            }
            [b"EVALSHA", digest, ..] if !server.has_script(digest) => {
                let text = "NOSCRIPT No matching script. Please use EVAL.".to_owned();
                (Reply::Error(text), Vec::new())
            }
            [verb @ (b"EVAL" | b"EVALSHA"), _, keys, rest @ ..] => {
                let Some(script) = lease_command.script.clone() else {
                    return (Reply::Error("ERR no script".to_owned()), Vec::new());
                };
                if *verb == b"EVAL" {
                    server.run_identity.scripts.insert(script.id);
                }
                let count = std::str::from_utf8(keys).ok().and_then(|keys| keys.parse().ok());
                let (keys, args) = rest.split_at(count.unwrap_or(0).min(rest.len()));
                match self.as_owner(server, lease_command, 3 + keys.len(), args) {
                    None => server.run_script(&script, (keys, args), now),
                    Some(args) => {
                        let args = args.iter().map(Vec::as_slice).collect::<Vec<_>>();
                        server.run_script(&script, (keys, &args), now)
                    }
                }
            }
            _ => {
                if let Some(args) = self.as_owner(server, lease_command, 0, args) {
                    let args = args.iter().map(Vec::as_slice).collect::<Vec<_>>();
                    return server.execute(now, |execution| execution.execute(&args));
                }
                let anybodys = server.bug == Some(Bug::ReleasesAnybodys);
                server.execute(now, |execution| match args {
                    [b"HDEL" | b"DELIFEQ", key, _] if anybodys && lease_command.verb.is_some() => {
                        execution.execute(&[b"DEL", key])
                    }
                    args => execution.execute(args),
                })
            }
        }
    }

    /// The arguments with the owner in place of the nonce: a planted bug.
    fn as_owner(
        &self,
        server: &Server,
        lease_command: &LeaseCommand,
        first: usize,
        args: &[&[u8]],
    ) -> Option<Vec<Vec<u8>>> {
        if server.bug != Some(Bug::OwnerNotNonce) || lease_command.places.is_empty() {
            return None;
        }
        let mut args: Vec<_> = args.iter().map(|arg| arg.to_vec()).collect();
        {
            for place in &lease_command.places {
                let Some(arg) = args.get_mut(place - first) else { continue };
                let owner = Nonce::from_u128(self.client as u128 + 1);
                let field = format!("{}:{}", owner.hyphenated(), self.client);
                if arg.starts_with(&[4, 1]) {
                    *arg = [&[4, 1, field.len() as u8], field.as_bytes(), &[1, b'1']].concat();
                } else if arg.contains(&b':') {
                    *arg = field.into_bytes();
                } else {
                    *arg = owner.to_string().into_bytes();
                }
            }
        }
        Some(args)
    }

    fn subscribe(&mut self, server: &mut Server, joins: bool, channel: &[u8]) -> Reply {
        let place = self.channels.iter().position(|known| known == channel);
        match (joins, place) {
            (true, None) => {
                self.channels.push(channel.to_vec());
                server.channels.entry(channel.to_vec()).or_default().push(self.number);
            }
            (false, Some(place)) => {
                self.channels.remove(place);
                server.unsubscribe(channel, self.number);
            }
            _ => {}
        }
        let kind = if joins { "subscribe" } else { "unsubscribe" };
        let count = Reply::Int(self.channels.len() as i64);
        Reply::Array(vec![Reply::text(kind), Reply::text(channel), count])
    }

    /// The connection has ended.
    pub fn close(&mut self, server: &mut Server) {
        for channel in std::mem::take(&mut self.channels) {
            server.unsubscribe(&channel, self.number);
        }
    }

    fn end_transaction(
        &mut self,
        server: &mut Server,
        now: Micros,
        effects: &mut Effects,
    ) -> Reply {
        let Some(queue) = self.transaction.take() else {
            return Reply::Error("ERR EXEC without MULTI".to_owned());
        };
        if self.aborted {
            effects.seen.push(Sometimes::TxnAborted);
            let text = "EXECABORT Transaction discarded because of previous errors.";
            let reply = Reply::Error(text.to_owned());
            effects
                .transaction
                .extend(queue.into_iter().map(|queued| (queued.lease_command, reply.clone())));
            return reply;
        }
        let (mut replies, mut proof) = (Vec::new(), Proof::default());
        for Queued { args, lease_command } in queue {
            let args = args.iter().map(Vec::as_slice).collect::<Vec<_>>();
            let (mut reply, published) = self.run(server, &args, &lease_command, now);
            effects.published.extend(published);
            proof.observe(server.bug, &args, &mut reply);
            let last = replies.last().map(|last| *last == Reply::OK);
            match (args[0], &reply) {
                (b"SET" | b"RESTORE", Reply::Status(_)) => {
                    let unproven = proof.failed;
                    let seen = if unproven { Sometimes::TxnUnproven } else { Sometimes::TxnGrant };
                    effects.seen.push(seen);
                }
                (b"ZADD", Reply::Int(1)) if last == Some(false) => {
                    effects.seen.push(Sometimes::TxnRefused);
                }
                (b"ZADD", Reply::Int(0)) if last == Some(true) => {
                    effects.seen.push(Sometimes::TxnBehind);
                }
                _ => {}
            }
            effects.transaction.push((lease_command, reply.clone()));
            replies.push(reply);
        }
        Reply::Array(replies)
    }
}

fn refusal(reply: &Reply) -> Option<Sometimes> {
    match reply {
        Reply::Error(text) if text.starts_with("NOSCRIPT") => Some(Sometimes::ScriptMissing),
        Reply::Error(text) if text.starts_with("READONLY") => Some(Sometimes::ReadOnly),
        _ => None,
    }
}

/// The proof of the memory at the beginning of a transaction.
#[derive(Debug, Default)]
struct Proof {
    stamp: Option<String>,
    failed: bool,
}

impl Proof {
    fn observe(&mut self, bug: Option<Bug>, args: &[&[u8]], reply: &mut Reply) {
        let any = bug == Some(Bug::BelievesAnyMemory);
        match args {
            [b"SCRIPT", b"EXISTS", digest] => {
                let script = std::str::from_utf8(digest).ok().and_then(Script::by_digest);
                self.stamp = script.and_then(|script| script.stamp.clone());
                let loaded = Reply::Array(vec![Reply::Int(1)]);
                self.failed |= *reply != loaded;
                if any {
                    *reply = loaded;
                }
            }
            [b"HGET", _, b"stamp"] => {
                let Some(stamp) = &self.stamp else { return };
                let right = Reply::text(stamp.as_bytes());
                self.failed |= *reply != right;
                if any || bug == Some(Bug::RecordAtConnect) {
                    *reply = right;
                }
            }
            _ => {}
        }
    }
}

/// A planted bug: the client takes every server for the one that was there before.
fn altered_info(server: &Server, args: &[&[u8]]) -> Option<Reply> {
    if server.bug != Some(Bug::TrustsAnyLife) {
        return None;
    }
    let (about_server, about_replication) = server.run_identity.first();
    match args {
        [b"INFO", b"server"] => Some(Reply::text(about_server)),
        [b"INFO", b"replication"] => Some(Reply::text(about_replication)),
        _ => None,
    }
}
