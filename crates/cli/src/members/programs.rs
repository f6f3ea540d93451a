//! The programs that are connected to the nodes, by the names of their connections.

use std::collections::BTreeMap;

use futures::future::join_all;
use quorumlock::admission::MemberList;
use quorumlock_protocol::admission::members::ClientName;
use redis::{RedisResult, cmd};

use crate::doctor::probe::Probe;

/// The programs with a list other than the one that is asked for.
#[derive(Debug, Default)]
pub(super) struct Programs {
    /// By label and list: an address, as a node sees it.
    seen: BTreeMap<(String, String), String>,
    /// The nodes that answer, and do not tell who is connected (`CLIENT LIST`).
    pub(super) untold: Vec<String>,
}

impl Programs {
    /// Asks all nodes. Those that do not answer tell of nobody: their programs are connected to the others.
    pub(super) async fn with_another_list(probes: &[Probe], list: &MemberList) -> Self {
        let asked = probes.iter().map(async |probe| (probe.node(), probe.within(ask(probe)).await));
        let mut programs = Self::default();
        for (node, told) in join_all(asked).await {
            match told {
                Some(Ok(text)) => programs.read(&text, list),
                Some(Err(error)) if !error.is_io_error() => programs.untold.push(node.to_owned()),
                _ => {}
            }
        }
        programs
    }

    /// What people read: one line for each program.
    pub(super) fn lines(&self) -> Vec<String> {
        let line = |((by, list), address): (&(String, String), &String)| {
            let who = if by.is_empty() { "a program without a label" } else { by };
            format!("{who} ({address}) has the list [{}]", list.replace(',', ", "))
        };
        self.seen.iter().map(line).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Reads the answer to `CLIENT LIST`.
    fn read(&mut self, text: &str, list: &MemberList) {
        for line in text.lines() {
            let field = |name| line.split(' ').find_map(|word| word.strip_prefix(name));
            let named = field("name=").and_then(ClientName::parse);
            let (Some(named), Some(address)) = (named, field("addr=")) else { continue };
            if !named.has(list) {
                let program = (named.by().to_owned(), named.list().to_owned());
                self.seen.entry(program).or_insert_with(|| address.to_owned());
            }
        }
    }
}

async fn ask(probe: &Probe) -> RedisResult<String> {
    cmd("CLIENT").arg("LIST").query_async(&mut probe.connect().await?).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_another_list_is_named_once_with_its_address() {
        let text = "id=3 addr=10.0.0.7:4711 fd=8 name=quorumlock:1;list=a,b,c;by=web-3:12 age=5\n\
                    id=4 addr=10.0.0.7:4712 fd=9 name=quorumlock:1;list=a,b,c;by=web-3:12 age=5\n\
                    id=5 addr=10.0.0.8:99 fd=9 name=quorumlock:1;list=a,b,c,d;by=web-4:12 age=5\n\
                    id=6 addr=10.0.0.9:99 fd=9 name=quorumlock:1 age=5\n\
                    id=7 addr=10.0.0.9:98 fd=9 name= age=5\n";
        let mut programs = Programs::default();
        programs.read(text, &MemberList::new(["a", "b", "c", "d"]));
        assert_eq!(programs.lines(), ["web-3:12 (10.0.0.7:4711) has the list [a, b, c]"]);
    }
}
