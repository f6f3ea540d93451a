//! Carries a change out, and tells what it waits for.

use std::fmt;
use std::time::Duration;

use quorumlock::admission::{
    ChangeProgress, ChangeRefused, ChangeStep, MemberChange, MemberList, NodeStatus,
    NodeStatusReport, Terms,
};
use quorumlock::{Builder, Locker, Servers};
use quorumlock_command::{Failure, Outcome, exit, print, say};
use quorumlock_protocol::without_password;
use serde::Serialize;
use tokio::time::sleep;

use super::plan::{Intent, Plan, plan};
use super::programs::Programs;
use super::progress::state;
use crate::cluster::{Cluster, Cure};
use crate::doctor::probe::Probe;
use crate::nodes::Nodes;
use crate::text::labels;

/// A change that an operator asks for.
#[derive(Debug)]
pub(super) struct Change<'a> {
    pub(super) nodes: &'a Nodes,
    pub(super) json: bool,
    pub(super) builder: Builder,
    /// The URLs of the list that changes.
    pub(super) present: Vec<String>,
    /// The URLs of the list to which the change leads.
    pub(super) target: Vec<String>,
    /// Whether `--node` is the list to which the change leads.
    pub(super) given_target: bool,
    /// Of the nodes of the list to which the change leads.
    pub(super) probes: Vec<Probe>,
}

impl Change<'_> {
    pub(super) async fn run(self, intent: Intent) -> Outcome {
        let (builder, until) = (&self.builder, intent.until());
        let present = builder.clone().with_servers(Servers::quorum(&self.present));
        let mut change = MemberChange::new(present, &self.target, until)?;
        let target = builder.clone().on(Servers::quorum(&self.target))?;
        let nodes = target.node_status().await?;
        let seen = self.seen(&nodes);
        let newest = seen.newest();
        match plan(&intent, newest, change.target(), self.given_target)? {
            Plan::Nothing(why) => {
                let list = newest.map(|terms| labels(&terms.list)).unwrap_or_default();
                let next = format!("nothing to do: {why} of [{}]", list.join(", "));
                let phase = newest.map_or(0, |terms| terms.phase);
                let done = Done { changed: false, phase, lists: vec![list], next };
                return print(self.json, &done).map(|()| 0);
            }
            Plan::Begin => must_be_fit(&intent, &seen)?,
            Plan::GoOn => {}
        }
        if let Intent::Finish { force } = intent {
            if newest.is_some_and(|terms| terms.next.is_some()) {
                self.must_have_the_list(change.target(), force).await?;
            }
            for remark in seen.outdated() {
                say(format_args!("{}, and is refused from now on", remark.what));
            }
        }
        let present = builder.clone().on(Servers::quorum(&self.present))?;
        let (terms, changed) = self.drive(&mut change, &present, &target).await?;
        let next = self.next(&intent, (newest, change.target()), changed);
        let lists = [Some(&terms.list), terms.next.as_ref()].into_iter().flatten();
        let lists = lists.map(labels).collect();
        print(self.json, &Done { changed, phase: terms.phase, lists, next })?;
        Ok(0)
    }

    /// Programs with another list lose their locks when the change ends.
    async fn must_have_the_list(&self, list: &MemberList, force: bool) -> Result<(), Failure> {
        let programs = Programs::with_another_list(&self.probes, list).await;
        if !programs.untold.is_empty() {
            say(format_args!(
                "{}: does not say which programs are connected: ACL SETUSER <user> +client|list",
                programs.untold.join(", ")
            ));
        }
        if programs.is_empty() || force {
            return Ok(());
        }
        let lines: Vec<_> =
            programs.lines().into_iter().map(|line| format!("\n  {line}")).collect();
        Err(Failure::new(
            exit::CONFIG,
            format!(
                "programs with another list are connected, and would lose their locks:{}\ngive them the list \
                 [{list}], or, if their locks may end: members finish --force",
                lines.concat()
            ),
        ))
    }

    /// Goes on to the end. Returns the last terms, and whether there was anything to do.
    async fn drive(
        &self,
        change: &mut MemberChange,
        present: &Locker,
        target: &Locker,
    ) -> Result<(Terms, bool), Failure> {
        /// A node may be slow to connect.
        const LOOKS: u32 = 3;

        let (mut told, mut changed, mut without) = (None, false, 0);
        loop {
            let Some(ChangeProgress { current, step, .. }) =
                change.step().await.map_err(refused)?
            else {
                without += 1;
                if without == LOOKS {
                    return Err(no_record(target).await);
                }
                sleep(self.pause()).await;
                continue;
            };
            without = 0;
            if step == ChangeStep::Done {
                return Ok((current, changed));
            }
            changed = true;
            // Of the other list the nodes would say only that they are not its.
            let asked = if current.admit(change.target()) { target } else { present };
            let nodes = match step {
                ChangeStep::Unconfirmed(_) => asked.node_status().await?,
                _ => Vec::new(),
            };
            let (state, text) = state(current.phase, &step, &self.seen(&nodes));
            if told.as_ref() != Some(&state) {
                say(text);
                told = Some(state);
            }
            let pause = match step {
                ChangeStep::Wait(left) => left.min(Duration::from_secs(1)),
                _ => self.pause(),
            };
            sleep(pause).await;
        }
    }

    /// How long one look at the nodes comes after another.
    fn pause(&self) -> Duration {
        let (min, max) = (Duration::from_millis(20), Duration::from_millis(500));
        (self.nodes.max_lease() / 40).clamp(min, max)
    }

    fn seen<'b>(&self, nodes: &'b [NodeStatusReport]) -> Cluster<'b> {
        Cluster::new(nodes, self.nodes.note_age())
    }

    /// What the operator does next. `before`: the newest terms at the beginning.
    fn next(
        &self,
        intent: &Intent,
        (before, target): (Option<&Terms>, &MemberList),
        changed: bool,
    ) -> String {
        let urls: Vec<_> = self.target.iter().map(|url| without_password(url)).collect();
        let urls = urls.join(",");
        match intent {
            Intent::Add(_) | Intent::Remove(_) => format!(
                "all nodes vote for both lists\nnow give all programs these nodes: {urls}\nthen, when \
                 `quorumlock members` shows no program with the old list, run: quorumlock members \
                 finish --node {urls}"
            ),
            Intent::Finish { .. } if changed => {
                let lists = before.into_iter().flat_map(|t| [Some(&t.list), t.next.as_ref()]);
                let members = lists.flatten().flat_map(|list| list.labels());
                let gone = members.filter(|label| !target.contains(label));
                let gone = gone.map(|label| format!(". {label} may be stopped")).next();
                format!(
                    "all nodes vote only for programs with [{target}]{}",
                    gone.unwrap_or_default()
                )
            }
            Intent::Finish { .. } => {
                format!("nothing to do: all nodes vote only for programs with [{target}]")
            }
        }
    }
}

/// Fails if the node that is added cannot vote until an operator acts.
fn must_be_fit(intent: &Intent, seen: &Cluster<'_>) -> Result<(), Failure> {
    let Intent::Add(label) = intent else { return Ok(()) };
    let Some(node) = seen.nodes.iter().find(|node| node.label == *label) else { return Ok(()) };
    let Some(remark) = seen.obstacle(node) else { return Ok(()) };
    let (code, action) = match (&node.status, remark.cure) {
        // Nodes of the present list do not know the new one, and bar it until the change begins.
        (Ok(NodeStatus::New | NodeStatus::Unproven), _) | (_, Cure::Itself(_)) => return Ok(()),
        (Ok(NodeStatus::OtherMembers { .. }), _) => (
            exit::CONFIG,
            "if no lock is held in that cluster and its programs have stopped, or if this server \
             was removed from this cluster, restart it and try again",
        ),
        (Err(problem), Cure::Operator(action)) => (exit::code_of_problem(problem), action),
        (Ok(_), Cure::Operator(action)) => (exit::CONFIG, action),
    };
    Err(Failure::new(code, format!("{label} cannot be added: it {} ({action})", remark.what)))
}

fn refused(error: ChangeRefused) -> Failure {
    Failure::new(exit::CONFIG, error.to_string())
}

/// Why no node shows a record.
async fn no_record(locker: &Locker) -> Failure {
    let silent = locker.node_status().await.map(|nodes| nodes.iter().all(|n| n.status.is_err()));
    match locker.ping().await {
        Err(error) if silent.unwrap_or(true) => error.into(),
        _ => Failure::new(
            exit::CONFIG,
            "no node shows the record of a cluster: run `quorumlock init` for new servers, or wait \
             until programs that lock have admitted the nodes",
        ),
    }
}

/// What a change prints at its end.
#[derive(Debug, Serialize)]
struct Done {
    changed: bool,
    phase: u64,
    /// The lists whose programs the nodes vote for.
    lists: Vec<Vec<String>>,
    /// What the operator does next.
    next: String,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.next)
    }
}
