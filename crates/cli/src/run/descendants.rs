//! The processes that the command has started, also those that left its process group.

use std::fmt;
use std::io;
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, waitpid};
use tokio::signal::unix::{self, SignalKind};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// The processes that the command and its descendants have started. Only Linux tells of those that
/// left the process group.
#[derive(Debug)]
pub(super) struct Descendants {
    /// The children that this process had before it ran the command.
    older: Vec<Process>,
    reaper: JoinSet<()>,
}

/// One process, as the system reported it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) id: Pid,
    pub(super) group: i32,
    parent: i32,
    /// A process of another start has another time, though the system gave it the same id.
    started: u64,
    name: String,
    zombie: bool,
}

impl Process {
    pub(super) fn is(&self, other: &Self) -> bool {
        (self.id, self.started) == (other.id, other.started)
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name.escape_debug(), self.id)
    }
}

impl Descendants {
    /// From now on this process is the parent of each descendant whose own parent ends. Call it
    /// before the command is started.
    pub(super) fn adopt() -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let ours = own_id();
        let mut older = all().unwrap_or_default();
        older.retain(|process| process.parent == ours);
        Ok(Self { older, reaper: JoinSet::new() })
    }

    /// Takes the exit codes of the adopted, so that the system forgets them: of all children but the
    /// command.
    pub(super) fn reap_all_but(&mut self, command: Pid) -> io::Result<()> {
        /// A look costs milliseconds, and the command may start and leave many processes.
        const AT_MOST_EVERY: Duration = Duration::from_millis(100);

        let mut changes = unix::signal(SignalKind::child())?;
        self.reaper.spawn(async move {
            loop {
                reap_all_but(command);
                sleep(AT_MOST_EVERY).await;
                changes.recv().await;
            }
        });
        Ok(())
    }

    /// Those that have not ended, the command included; `None` if the system does not tell.
    pub(super) fn alive(&self) -> Option<Vec<Process>> {
        let look = || {
            let mut found = below(own_id(), &self.older, all()?);
            found.retain(|process| !process.zombie);
            Some(found)
        };
        // One look misses a process whose parent ends during it.
        look().filter(|found| !found.is_empty()).or_else(look)
    }
}

fn reap_all_but(command: Pid) {
    let ours = own_id();
    let mut ended = all().unwrap_or_default();
    ended.retain(|child| child.zombie && child.parent == ours && child.id != command);
    for child in ended {
        let _ = waitpid(Some(child.id), WaitOptions::NOHANG);
    }
}

fn own_id() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Of all processes those that descend from `root`, but not those that descend from `older`.
fn below(root: i32, older: &[Process], all: Vec<Process>) -> Vec<Process> {
    let (mut found, mut rest, mut parents) = (Vec::new(), all, vec![root]);
    rest.retain(|process| !older.iter().any(|child| child.is(process)));
    while !parents.is_empty() {
        let (children, others) =
            rest.into_iter().partition::<Vec<_>, _>(|process| parents.contains(&process.parent));
        parents = children.iter().map(|process| process.id.as_raw_nonzero().get()).collect();
        found.extend(children);
        rest = others;
    }
    found
}

/// All processes of this machine, or `None` if the system does not tell.
#[cfg(target_os = "linux")]
fn all() -> Option<Vec<Process>> {
    let stats = procfs::process::all_processes().ok()?.filter_map(|process| {
        let stat = process.ok()?.stat().ok()?; // a process may end meanwhile
        Some(Process {
            id: Pid::from_raw(stat.pid)?,
            group: stat.pgrp,
            parent: stat.ppid,
            started: stat.starttime,
            zombie: matches!(stat.state, 'Z' | 'X'),
            name: stat.comm,
        })
    });
    Some(stats.collect())
}

#[cfg(not(target_os = "linux"))]
fn all() -> Option<Vec<Process>> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(id: i32, parent: i32, started: u64) -> Process {
        let id = Pid::from_raw(id).unwrap();
        Process { id, group: 1, parent, started, name: "sh".to_owned(), zombie: false }
    }

    fn ids(found: &[Process]) -> Vec<i32> {
        found.iter().map(|process| process.id.as_raw_nonzero().get()).collect()
    }

    #[test]
    fn children_and_their_children_are_found_and_nobody_else() {
        // Ids start again from the smallest: a child may have a smaller id than its parent.
        let all = vec![
            process(1, 0, 0),
            process(3, 9, 8),
            process(7, 1, 5),
            process(9, 7, 6),
            process(8, 1, 5),
        ];
        assert_eq!(ids(&below(7, &[], all)), [9, 3]);
    }

    #[test]
    fn children_of_before_are_left_alone_with_their_children_unless_their_id_is_in_use_again() {
        let before = [process(4, 7, 1)];
        let all = vec![process(4, 7, 1), process(5, 4, 2), process(6, 7, 3)];
        assert_eq!(ids(&below(7, &before, all)), [6]);
        assert_eq!(ids(&below(7, &before, vec![process(4, 7, 9)])), [4]);
    }

    #[test]
    fn a_name_shows_no_control_characters() {
        let named = Process { name: "a\x1b[31m\n".to_owned(), ..process(4, 7, 1) };
        assert_eq!(named.to_string(), r"a\u{1b}[31m\n (4)");
    }
}
