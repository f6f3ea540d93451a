//! A plan of one's own, from a TOML file.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{
    ClientPlan, Draw, Fault, FirstAccess, OnLoss, Plan, ReadWrite, Ring, Span, Step, Waiting, When,
};
use crate::mode::Mode;
use crate::record::Expected;

/// A plan that somebody wrote, and what they expect of each mode.
#[derive(Debug)]
pub struct OwnPlan {
    file: PlanFile,
    expects: Vec<(Mode, Expected)>,
}

/// Why a text is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadPlanFile {
    /// It is not TOML, or has a field that plans do not have, or of another type.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// A value is out of bounds.
    #[error("{field} is {value}: {bound}")]
    Bound {
        /// The field.
        field: String,
        /// Its value.
        value: String,
        /// What it may be.
        bound: String,
    },
}

/// The longest time that a field may give.
const LONGEST_MS: u64 = 600_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    id: String,
    title: String,
    #[serde(default)]
    story: String,
    expects: BTreeMap<String, Expected>,
    #[serde(default)]
    times: Times,
    #[serde(default)]
    servers: Servers,
    #[serde(default)]
    locks: Locks,
    clients: Vec<Client>,
    #[serde(default)]
    steps: Vec<FileStep>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Times {
    lease_ms: Option<u64>,
    max_lease_ms: Option<u64>,
    least_ms: Option<u64>,
    tail_ms: Option<u64>,
    #[serde(default)]
    takeover_delay_ms: u64,
    ended_by_delay_ms: Option<[u64; 2]>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Servers {
    nodes: Option<usize>,
    spares: usize,
    args: Vec<String>,
    appendonly: bool,
    clock_gains_ppm: Option<i32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Locks {
    permits: Option<u32>,
    strict_order: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Client {
    id: String,
    #[serde(default)]
    kind: Kind,
    starts: Option<bool>,
    ways: Option<bool>,
    tasks: Option<usize>,
    names: Option<usize>,
    ring: Option<Ring>,
    read_write: Option<ReadWrite>,
    holds: Option<u64>,
    hold_ms: Option<[u64; 2]>,
    think_ms: Option<[u64; 2]>,
    write_every_ms: Option<u64>,
    failpoint_ms: Option<u64>,
    waiting: Option<Waiting>,
    on_loss: Option<OnLoss>,
    first_access: Option<FirstAccess>,
}

/// What the fields of a client that the file does not give are.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    /// As [`Draw::client`].
    #[default]
    Client,
    /// As [`Draw::holder`].
    Holder,
    /// As [`Draw::bare_holder`].
    BareHolder,
    /// As [`Draw::rival`].
    Rival,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileStep {
    when: Option<When>,
    after_ms: Option<[u64; 2]>,
    fault: Fault,
}

impl FileStep {
    fn step(&self, draw: &mut Draw) -> Step {
        let drawn = self.after_ms.map(|[low, high]| When::AfterMs(draw.ms(low, high)));
        let when = drawn.or_else(|| self.when.clone()).unwrap_or(When::NOW);
        Step { when, fault: self.fault.clone() }
    }
}

impl OwnPlan {
    /// Reads and checks a plan.
    ///
    /// # Errors
    /// [`BadPlanFile`] names the field, its value, and what it may be.
    pub fn parse(text: &str) -> Result<Self, BadPlanFile> {
        let file: PlanFile = toml::from_str(text)?;
        file.check()?;
        let mode = |(mode, expected): (&String, &Expected)| {
            let bad = |error: crate::mode::NoMode| bound("expects", mode, error);
            Ok((mode.parse::<Mode>().map_err(bad)?, *expected))
        };
        let expects = file.expects.iter().map(mode).collect::<Result<Vec<_>, BadPlanFile>>()?;
        let plan = Self { file, expects };
        for mode in plan.modes() {
            let drawn = plan.plan(&mut Draw::new(None, mode, 0, 0, false));
            if let [wrong, ..] = &drawn.wrong()[..] {
                return Err(bound(
                    "steps",
                    wrong,
                    format!("mode {mode} must have what a step names"),
                ));
            }
        }
        Ok(plan)
    }

    /// The id of the scenario.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.file.id
    }

    /// The title.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.file.title
    }

    /// What happens in it.
    #[must_use]
    pub fn story(&self) -> &str {
        &self.file.story
    }

    /// The modes in which it runs.
    pub fn modes(&self) -> impl Iterator<Item = Mode> {
        self.expects.iter().map(|(mode, _)| *mode)
    }

    /// What is expected of a mode; `None` if the plan is not for it.
    #[must_use]
    pub fn expected(&self, mode: Mode) -> Option<Expected> {
        self.expects.iter().find(|(known, _)| *known == mode).map(|(_, expected)| *expected)
    }

    /// The plan of a run.
    pub(super) fn plan(&self, draw: &mut Draw) -> Plan {
        let PlanFile { times, servers, locks, clients, steps, .. } = &self.file;
        let mut plan = draw.plan();
        if let Some(nodes) = servers.nodes.filter(|_| draw.mode.voters() > 1) {
            plan.servers.voters = nodes;
        }
        plan.servers.spares = servers.spares;
        plan.servers.args.clone_from(&servers.args);
        plan.servers.appendonly = servers.appendonly;
        plan.servers.clock_gains_ppm = servers.clock_gains_ppm;
        let locking = &mut plan.locking;
        locking.lease_ms = times.lease_ms.unwrap_or(locking.lease_ms);
        (locking.permits, locking.strict_order) = (locks.permits, locks.strict_order);
        let longest = times.max_lease_ms.unwrap_or(locking.max_lease_ms);
        locking.max_lease_ms = longest.max(locking.lease_ms);
        plan.delay_takeovers(times.takeover_delay_ms);
        plan.ended_by_delay =
            times.ended_by_delay_ms.map(|[low_ms, high_ms]| Span { low_ms, high_ms });
        plan.least_ms = times.least_ms.unwrap_or(plan.least_ms);
        plan.tail_ms = times.tail_ms.unwrap_or(plan.tail_ms);
        plan.clients = clients.iter().map(|of| of.plan(draw, plan.servers.voters)).collect();
        plan.schedule = steps.iter().map(|of| of.step(draw)).collect();
        plan
    }
}

impl Client {
    fn plan(&self, draw: &mut Draw, voters: usize) -> ClientPlan {
        let id = &self.id;
        let mut client = match self.kind {
            Kind::Client => draw.client(id),
            Kind::Holder => draw.holder(id),
            Kind::BareHolder => draw.bare_holder(id),
            Kind::Rival => draw.rival(id),
        };
        if let Some(reaches) = &mut client.reaches {
            *reaches = (0..=voters / 2).collect();
        }
        client.starts = self.starts.unwrap_or(client.starts);
        client.ways = self.ways.unwrap_or(client.ways);
        let work = &mut client.work;
        let span = |ms: Option<[u64; 2]>, else_: Span| {
            ms.map_or(else_, |[low_ms, high_ms]| Span { low_ms, high_ms })
        };
        work.contenders = self.tasks.unwrap_or(work.contenders);
        work.names = self.names.unwrap_or(work.names);
        work.ring = self.ring.or(work.ring);
        work.read_write = self.read_write.or(work.read_write);
        work.holds = self.holds.or(work.holds);
        work.hold = span(self.hold_ms, work.hold);
        work.think = span(self.think_ms, work.think);
        work.write_every_ms = self.write_every_ms.or(work.write_every_ms);
        work.failpoint_ms = self.failpoint_ms.or(work.failpoint_ms);
        work.waiting = self.waiting.unwrap_or(work.waiting);
        work.on_loss = self.on_loss.unwrap_or(work.on_loss);
        work.first_access = self.first_access.unwrap_or(work.first_access);
        client
    }

    fn check(&self, place: usize) -> Result<(), BadPlanFile> {
        let field = |name: &str| format!("clients[{place}].{name}");
        let letters = !self.id.is_empty() && self.id.chars().all(|c| c.is_ascii_lowercase());
        if !letters || self.id.len() > 8 {
            return Err(bound(field("id"), &self.id, "1 to 8 lowercase letters"));
        }
        let numbers = [
            ("tasks", self.tasks.map(|n| n as u64), 1, 1_000),
            ("names", self.names.map(|n| n as u64), 1, 100),
            ("holds", self.holds, 1, 1_000_000),
            ("write_every_ms", self.write_every_ms, 1, LONGEST_MS),
            ("failpoint_ms", self.failpoint_ms, 1, LONGEST_MS),
        ];
        numbers
            .into_iter()
            .try_for_each(|(name, value, low, high)| within(field(name), value, low, high))?;
        for (name, span) in [("hold_ms", self.hold_ms), ("think_ms", self.think_ms)] {
            ordered(field(name), span)?;
        }
        Ok(())
    }
}

impl PlanFile {
    fn check(&self) -> Result<(), BadPlanFile> {
        let id = &self.id;
        if id.is_empty() || id.len() > 16 || !id.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(bound("id", id, "1 to 16 letters and digits"));
        }
        if super::find(id).is_some() {
            return Err(bound("id", id, "none that a scenario of the lab has"));
        }
        if self.expects.is_empty() {
            return Err(bound("expects", "empty", "at least one mode"));
        }
        let Times { lease_ms, max_lease_ms, least_ms, tail_ms, .. } = self.times;
        within("times.lease_ms", lease_ms, 100, LONGEST_MS)?;
        within("times.max_lease_ms", max_lease_ms, lease_ms.unwrap_or(100), LONGEST_MS)?;
        within("times.least_ms", least_ms, 0, LONGEST_MS)?;
        within("times.tail_ms", tail_ms, 0, LONGEST_MS)?;
        within("times.takeover_delay_ms", Some(self.times.takeover_delay_ms), 0, LONGEST_MS)?;
        ordered("times.ended_by_delay_ms", self.times.ended_by_delay_ms)?;
        let Servers { nodes, spares, clock_gains_ppm, .. } = self.servers;
        within("servers.nodes", nodes.map(|n| n as u64), 2, 25)?;
        within("servers.spares", Some(spares as u64), 0, 10)?;
        let gains = clock_gains_ppm.map(|ppm| u64::from(ppm.unsigned_abs()));
        within("servers.clock_gains_ppm (without its sign)", gains, 0, 500_000)?;
        within("locks.permits", self.locks.permits.map(u64::from), 1, 256)?;
        within("the number of clients", Some(self.clients.len() as u64), 1, 26)?;
        within("the number of steps", Some(self.steps.len() as u64), 0, 1_000)?;
        for (place, client) in self.clients.iter().enumerate() {
            client.check(place)?;
            if let (Some(permits), Some(_)) = (self.locks.permits, client.read_write) {
                let none = format!("none, as clients[{place}] has read_write");
                return Err(bound("locks.permits", permits, none));
            }
            if self.clients[..place].iter().any(|other| other.id == client.id) {
                let field = format!("clients[{place}].id");
                return Err(bound(field, &client.id, "another one than each client before"));
            }
        }
        for (place, step) in self.steps.iter().enumerate() {
            if let Some(When::AtMs(ms) | When::AfterMs(ms) | When::Outlived { ms, .. }) = step.when
            {
                within(format!("steps[{place}].when"), Some(ms), 0, LONGEST_MS)?;
            }
            ordered(format!("steps[{place}].after_ms"), step.after_ms)?;
            if let (Some([low, high]), Some(_)) = (step.after_ms, &step.when) {
                let (field, value) =
                    (format!("steps[{place}].after_ms"), format!("[{low}, {high}]"));
                return Err(bound(field, value, "none, as the step has a `when`"));
            }
        }
        Ok(())
    }
}

fn within(
    field: impl Into<String>,
    value: Option<u64>,
    low: u64,
    high: u64,
) -> Result<(), BadPlanFile> {
    match value {
        Some(value) if !(low..=high).contains(&value) => {
            Err(bound(field, value, format!("{low} to {high}")))
        }
        _ => Ok(()),
    }
}

fn ordered(field: impl Into<String>, span: Option<[u64; 2]>) -> Result<(), BadPlanFile> {
    let Some([low, high]) = span else { return Ok(()) };
    let field = field.into();
    within(field.as_str(), Some(high), 0, LONGEST_MS)?;
    if low > high {
        let value = format!("[{low}, {high}]");
        return Err(bound(field, value, "the shortest first, then the longest"));
    }
    Ok(())
}

fn bound(field: impl Into<String>, value: impl ToString, bound: impl ToString) -> BadPlanFile {
    BadPlanFile::Bound { field: field.into(), value: value.to_string(), bound: bound.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = include_str!("../../plans/restart_empty.toml");

    #[test]
    fn the_example_is_a_plan_in_each_of_its_modes() {
        let own = OwnPlan::parse(PLAN).unwrap();
        assert_eq!(own.modes().collect::<Vec<_>>(), [Mode::Q5, Mode::QQ, Mode::S]);
        assert_eq!(own.expected(Mode::S), Some(Expected::Violation));
        assert_eq!(own.expected(Mode::R), None);
        let plan = own.plan(&mut Draw::new(None, Mode::QQ, 1, 0, false));
        assert_eq!((plan.servers.voters, plan.tail_ms, plan.schedule.len()), (5, 1_000, 5));
        assert_eq!(plan.clients[0].reaches, Some(vec![0, 1, 2]));
        assert_eq!(plan.schedule[1], When::holds("a").then(Fault::Kill(0)));
        assert_eq!(plan.clients[1].work.hold, Span { low_ms: 20, high_ms: 60 });
    }

    #[test]
    fn each_plan_that_ships_is_one() {
        let plans = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/plans")).unwrap();
        let plans = plans.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
        let plans = plans.map(|text| OwnPlan::parse(&text).unwrap()).collect::<Vec<_>>();
        assert!(plans.len() > 4);
    }

    #[test]
    fn nodes_change_what_a_bare_majority_is() {
        let text = PLAN
            .replace("[times]\nlease_ms = 12000", "[servers]\nnodes = 3\n[times]\nlease_ms = 700");
        let plan =
            |mode| OwnPlan::parse(&text).unwrap().plan(&mut Draw::new(None, mode, 1, 0, true));
        let strict = plan(Mode::QQ);
        assert_eq!((strict.servers.voters, strict.locking.lease_ms), (3, 700));
        assert_eq!(strict.clients[0].reaches, Some(vec![0, 1]));
        assert_eq!(plan(Mode::S).servers.voters, 1);
    }

    #[test]
    fn a_takeover_delay_fits_into_the_longest_lease_and_changes_what_is_expected() {
        let times = "lease_ms = 700\nmax_lease_ms = 800\nended_by_delay_ms = [100, 300]\n";
        let expected = |delay_ms: u64| {
            let times = format!("[times]\ntakeover_delay_ms = {delay_ms}\n{times}");
            let own = OwnPlan::parse(&PLAN.replace("[times]\nlease_ms = 12000\n", &times)).unwrap();
            let plan = own.plan(&mut Draw::new(None, Mode::S, 1, 0, true));
            let kept_ms = plan.locking.lease_ms as f64 + delay_ms as f64 / 0.99;
            assert!(plan.locking.max_lease_ms as f64 >= kept_ms, "{plan:?}");
            plan.expected(Expected::Violation)
        };
        let [none, short, between, long] = [0, 99, 100, 300].map(expected);
        assert_eq!([none, short], [Expected::Violation; 2]);
        assert_eq!([between, long], [Expected::Any, Expected::Ok]);
    }

    #[test]
    fn a_moment_that_is_drawn_differs_between_repetitions_and_not_between_modes() {
        let text = PLAN.replace("when = { after-ms = 100 }", "after_ms = [100, 100000]");
        let own = OwnPlan::parse(&text).unwrap();
        let drawn = |mode, repetition| {
            let plan = own.plan(&mut Draw::new(None, mode, 1, repetition, false));
            match plan.schedule[2].when {
                When::AfterMs(ms @ 100..=100_000) => ms,
                ref when => panic!("{when:?}"),
            }
        };
        assert!((1..9).any(|repetition| drawn(Mode::S, repetition) != drawn(Mode::S, 0)));
        assert_eq!(drawn(Mode::S, 0), drawn(Mode::S, 0), "the seed decides");
    }

    #[test]
    fn a_plan_takes_locks_of_each_kind() {
        let plan = |locks: &str, client: &str| {
            let text = PLAN
                .replace("[times]\n", &format!("{locks}\n[times]\n"))
                .replace("hold_ms = [20, 60]\n", &format!("hold_ms = [20, 60]\n{client}\n"));
            OwnPlan::parse(&text).unwrap().plan(&mut Draw::new(None, Mode::S, 1, 0, false))
        };
        let locking = plan("[locks]\npermits = 2\nstrict_order = true", "").locking;
        assert_eq!((locking.permits, locking.strict_order), (Some(2), true));
        let work = |client| plan("", client).clients[1].work.clone();
        assert_eq!(work("read_write = \"read\"").read_write, Some(ReadWrite::Read));
        let rings = work("names = 5\nring = \"all-or-nothing\"");
        assert_eq!((rings.names, rings.ring), (5, Some(Ring::AllOrNothing)));
    }

    #[test]
    fn errors_name_the_field_the_value_and_the_bound() {
        for (from, to, words) in [
            ("\"EMPTY\"", "\"l10\"", "id is l10: none that a scenario of the lab has"),
            ("\"EMPTY\"", "\"a/b\"", "id is a/b: 1 to 16 letters and digits"),
            ("tail_ms = 1000", "tail_ms = 600001", "times.tail_ms is 600001: 0 to 600000"),
            ("tail_ms", "tale_ms", "unknown field `tale_ms`"),
            ("[20, 60]", "[60, 20]", "clients[1].hold_ms is [60, 20]: the shortest first"),
            (
                "tail_ms",
                "ended_by_delay_ms = [2, 1]\ntail_ms",
                "ended_by_delay_ms is [2, 1]: the shor",
            ),
            ("id = \"b\"", "id = \"a\"", "clients[1].id is a: another one"),
            ("QQ = \"ok\"", "QX = \"ok\"", "expects is QX: \"QX\" is no mode: S, S1, R"),
            ("\"ok\"", "\"fine\"", "unknown variant `fine`"),
            ("{ kill = 0 }", "{ kill = 9 }", "steps is no such node: kill node 9"),
            ("{ kill = 0 }", "{ maim = 0 }", "unknown variant `maim`"),
            ("after-ms = 100", "after-ms = 600001", "steps[2].when is 600001: 0 to 600000"),
            ("{ granted = \"b\" }", "{ granted = \"c\" }", "no such client: c"),
            (
                "when = { after-ms = 100 }",
                "after_ms = [9, 1]",
                "steps[2].after_ms is [9, 1]: the shor",
            ),
            (
                "when = { after-ms = 100 }",
                "when = { after-ms = 100 }\nafter_ms = [1, 9]",
                "steps[2].after_ms is [1, 9]: none, as the step has a `when`",
            ),
            ("[times]", "[locks]\npermits = 0\n[times]", "locks.permits is 0: 1 to 256"),
            ("kind = \"rival\"", "ring = \"odd\"", "unknown variant `odd`"),
        ] {
            let said = OwnPlan::parse(&PLAN.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(said.contains(words), "{words:?} in {said}");
        }
    }
}
