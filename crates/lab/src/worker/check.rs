//! Whether a program speaks the lines of a worker: two of its processes take turns on one server.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use quorumlock_testbed::servers::ask;
use serde::Serialize;

use super::pipe::{Group, Output, Pipe, Said};
use super::protocol::{
    Acquire, Feature, Greeting, Hello, Line, LockKind, PROTOCOL, Request, Topology,
};
use crate::timestamp;

/// What was found, line by line.
#[derive(Debug, Serialize)]
pub struct Checkup {
    /// The command of the worker.
    pub command: String,
    /// What the worker says of itself.
    pub hello: Option<Hello>,
    /// One finding for each line.
    pub lines: Vec<Finding>,
}

/// What was found of one line.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The line.
    pub line: &'static str,
    /// How it is.
    pub state: State,
    /// What the worker did, if the line is not as it should be.
    pub what: String,
}

/// How a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// As it should be.
    Ok,
    /// It did not come in time.
    Missing,
    /// It came, and is wrong.
    Wrong,
    /// It depends on another line, which is not as it should be.
    NotTried,
    /// The worker says that its library does not do this.
    NotDeclared,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Missing => "MISSING",
            Self::Wrong => "WRONG",
            Self::NotTried => "not tried",
            Self::NotDeclared => "not declared",
        })
    }
}

impl Checkup {
    /// Whether the lab can use the worker.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.lines.iter().all(|found| matches!(found.state, State::Ok | State::NotDeclared))
    }
}

/// The lines that are looked at, in the order in which they must come.
const LINES: [&str; 9] =
    ["hello", "granted", "refused", "checked", "renewed", "released", "lost", "clocks", "end"];

/// The lease in multiples of the patience: it outlasts lines that do not come.
const LEASE: u32 = 3;

/// Within this part of the lease and the patience, a library renews it, or finds that it is lost.
const RENEWS_WITHIN: f64 = 0.67;

const NAME: &str = "worker-check";

/// After an attempt that failed.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// A worker may need an interpreter or a virtual machine, which starts within so many times the
/// patience.
const STARTS_WITHIN: u32 = 3;

/// Starts the command twice and has both take one lock in turn on a server whose memory may be
/// flushed. `patience`: how long a line may take.
///
/// # Errors
/// The [`io::Error`] of the system if the command cannot be started.
pub async fn check(command: &str, server: SocketAddr, patience: Duration) -> io::Result<Checkup> {
    let mut talk = Talk {
        first: Side::start(command, patience)?,
        second: Side::start(command, patience)?,
        found: Vec::new(),
    };
    let greeted = talk.greet(server, patience).await;
    if let Some(hello) = &greeted {
        talk.take_turns(hello, server, patience).await;
        talk.clocks();
        talk.end().await;
    }
    let mut found = talk.found;
    let lines = LINES.map(|line| {
        let place = found.iter().position(|found| found.line == line);
        let not_tried = || Finding { line, state: State::NotTried, what: String::new() };
        place.map_or_else(not_tried, |place| found.swap_remove(place))
    });
    Ok(Checkup { command: command.to_owned(), hello: greeted, lines: lines.into() })
}

/// Two processes of the worker, and what was found so far.
struct Talk {
    first: Side,
    second: Side,
    found: Vec<Finding>,
}

/// One process.
struct Side {
    pipe: Pipe,
    output: Output,
    patience: Duration,
    /// What is wrong with a clock reading.
    wrong_clock: Option<String>,
    readings: u32,
    /// The number of the last attempt.
    attempts: u64,
}

/// What a process answered.
enum Heard {
    Line(Line),
    Nothing(String),
}

type Verdict = Result<(), (State, String)>;

fn missing<T>(why: impl Into<String>) -> Result<T, (State, String)> {
    Err((State::Missing, why.into()))
}

fn wrong<T>(why: impl Into<String>) -> Result<T, (State, String)> {
    Err((State::Wrong, why.into()))
}

impl Talk {
    fn found(&mut self, line: &'static str, verdict: Verdict) -> bool {
        let (state, what) = match verdict {
            Ok(()) => (State::Ok, String::new()),
            Err(not) => not,
        };
        self.found.push(Finding { line, state, what });
        state == State::Ok
    }

    async fn greet(&mut self, server: SocketAddr, patience: Duration) -> Option<Hello> {
        let within = STARTS_WITHIN * patience;
        let (first, second) =
            tokio::join!(self.first.greet(server, within), self.second.greet(server, within));
        let hello = match first.and_then(|hello| second.map(|_| hello)) {
            Ok(hello) => hello,
            Err(not) => {
                self.found("hello", Err(not));
                return None;
            }
        };
        self.found("hello", Ok(())).then_some(hello)
    }

    async fn take_turns(&mut self, hello: &Hello, server: SocketAddr, patience: Duration) {
        let kind = hello.kinds.first().copied().unwrap_or(LockKind::Lock);
        let granted = self.first.acquire(kind, Duration::ZERO).await;
        let Ok(id) = granted else {
            self.found("granted", granted.map(drop));
            return;
        };
        self.found("granted", Ok(()));
        let refused = self.second.is_refused(kind).await;
        self.found("refused", refused);
        let checked = self.first.check(id).await;
        self.found("checked", checked);
        let renewed = match hello.has(Feature::Renewal) && hello.has(Feature::Validity) {
            true => self.first.is_renewed(id).await,
            false => Err((State::NotDeclared, "the library tells no renewal".to_owned())),
        };
        self.found("renewed", renewed);
        let released = self.first.release(id).await;
        let next = self.second.acquire(kind, patience).await;
        let released = released.and_then(|()| match &next {
            Err((_, why)) => wrong(format!("the next client does not get the lock: {why}")),
            Ok(_) => Ok(()),
        });
        self.found("released", released);
        let lost = match (hello.has(Feature::Loss), next) {
            (false, _) => Err((State::NotDeclared, "the library tells no loss".to_owned())),
            (true, Err(_)) => return,
            (true, Ok(id)) => self.second.is_told(id, server).await,
        };
        self.found("lost", lost);
    }

    fn clocks(&mut self) {
        if self.first.readings + self.second.readings == 0 {
            return;
        }
        let wrong = self.first.wrong_clock.take().or_else(|| self.second.wrong_clock.take());
        self.found("clocks", wrong.map_or(Ok(()), |why| Err((State::Wrong, why))));
    }

    async fn end(&mut self) {
        let (first, second) = tokio::join!(self.first.end(), self.second.end());
        self.found("end", first.and(second));
    }
}

impl Side {
    fn start(command: &str, patience: Duration) -> io::Result<Self> {
        let (pipe, output) = Pipe::start(command, Group::Own)?;
        Ok(Self { pipe, output, patience, wrong_clock: None, readings: 0, attempts: 0 })
    }

    async fn greet(
        &mut self,
        server: SocketAddr,
        within: Duration,
    ) -> Result<Hello, (State, String)> {
        let greeting = Greeting {
            protocol: PROTOCOL,
            client: NAME.to_owned(),
            topology: Topology::One,
            servers: vec![format!("redis://{server}")],
            master: None,
            lease_ms: self.lease_ms(),
        };
        // A worker that has ended tells that by its output.
        let _ = self.pipe.send(&Request::Hello(greeting)).await;
        match self.hear(within).await {
            Heard::Line(Line::Hello(hello)) if hello.protocol != PROTOCOL => {
                wrong(format!("protocol is {}, not {PROTOCOL}", hello.protocol))
            }
            Heard::Line(Line::Hello(hello)) if !hello.topologies.contains(&Topology::One) => {
                wrong("topologies lacks `one`, which this check uses")
            }
            Heard::Line(Line::Hello(hello)) => Ok(hello),
            Heard::Line(Line::Absent { why }) => wrong(format!("the library is absent: {why}")),
            Heard::Line(other) => wrong(format!("another line came first: {other:?}")),
            Heard::Nothing(why) => missing(why),
        }
    }

    /// The number of the hold. A library that still connects may fail: it is asked again.
    async fn acquire(&mut self, kind: LockKind, wait: Duration) -> Result<u64, (State, String)> {
        let give_up = timestamp::mono_ns() + ns(self.patience + wait);
        loop {
            let (id, asked, line) = self.attempt(kind, wait).await;
            match line {
                Heard::Line(Line::Granted(granted)) => {
                    self.reading("granted", asked, granted.asked_ns, granted.heard_ns);
                    return Ok(id);
                }
                Heard::Line(Line::Refused(refused)) if refused.held => {
                    return wrong(format!("a free lock is refused as held: {}", refused.why));
                }
                Heard::Line(Line::Refused(refused)) if timestamp::mono_ns() > give_up => {
                    return wrong(format!("a free lock is refused: {}", refused.why));
                }
                Heard::Line(Line::Refused(_)) => tokio::time::sleep(ASK_AGAIN_AFTER).await,
                Heard::Line(other) => return wrong(format!("{other:?}")),
                Heard::Nothing(why) => return missing(why),
            }
        }
    }

    async fn is_refused(&mut self, kind: LockKind) -> Verdict {
        let give_up = timestamp::mono_ns() + ns(self.patience);
        loop {
            let (_, asked, line) = self.attempt(kind, Duration::ZERO).await;
            match line {
                Heard::Line(Line::Refused(refused)) => {
                    self.reading("refused", asked, refused.asked_ns, refused.heard_ns);
                    if refused.held {
                        return Ok(());
                    }
                    if timestamp::mono_ns() > give_up {
                        return wrong(format!("`held` is false for a held lock: {}", refused.why));
                    }
                    tokio::time::sleep(ASK_AGAIN_AFTER).await;
                }
                Heard::Line(Line::Granted(_)) => {
                    return wrong("a lock that another client holds was granted");
                }
                Heard::Line(other) => return wrong(format!("{other:?}")),
                Heard::Nothing(why) => return missing(why),
            }
        }
    }

    /// The number of the attempt, when it was ordered, and the answer.
    async fn attempt(&mut self, kind: LockKind, wait: Duration) -> (u64, u64, Heard) {
        self.attempts += 1;
        let (id, asked) = (self.attempts, timestamp::mono_ns());
        let wait_ms = Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        let permits = (kind == LockKind::Permit).then_some(1);
        let names = vec![NAME.to_owned()];
        let acquire = Acquire { id, names, kind, permits, lease_ms: self.lease_ms(), wait_ms };
        let _ = self.pipe.send(&Request::Acquire(acquire)).await;
        (id, asked, self.hear_of(id, self.patience + wait, false).await)
    }

    async fn check(&mut self, id: u64) -> Verdict {
        let asked = timestamp::mono_ns();
        let _ = self.pipe.send(&Request::Check { id }).await;
        match self.hear_of(id, self.patience, false).await {
            Heard::Line(Line::Checked(checked)) => {
                self.reading("checked", asked, checked.asked_ns, checked.heard_ns);
                if checked.valid { Ok(()) } else { wrong("`valid` is false for a held lock") }
            }
            Heard::Line(other) => wrong(format!("{other:?}")),
            Heard::Nothing(why) => missing(why),
        }
    }

    async fn release(&mut self, id: u64) -> Verdict {
        let asked = timestamp::mono_ns();
        let _ = self.pipe.send(&Request::Release { id }).await;
        match self.hear_of(id, self.patience, false).await {
            Heard::Line(Line::Released(released)) => {
                self.reading("released", asked, released.asked_ns, released.heard_ns);
                match released.ok {
                    true => Ok(()),
                    false => wrong(format!("`ok` is false for a held lock: {}", released.why)),
                }
            }
            Heard::Line(other) => wrong(format!("{other:?}")),
            Heard::Nothing(why) => missing(why),
        }
    }

    fn lease_ms(&self) -> u64 {
        u64::try_from((LEASE * self.patience).as_millis()).unwrap_or(u64::MAX)
    }

    /// How long a renewal, or the notice of a loss, may take.
    fn renewal(&self) -> Duration {
        (LEASE * self.patience).mul_f64(RENEWS_WITHIN) + self.patience
    }

    async fn is_renewed(&mut self, id: u64) -> Verdict {
        match self.hear_of(id, self.renewal(), true).await {
            Heard::Line(Line::Renewed(_)) => Ok(()),
            Heard::Line(other) => wrong(format!("{other:?}")),
            Heard::Nothing(why) => missing(why),
        }
    }

    /// Takes the memory of the server away.
    async fn is_told(&mut self, id: u64, server: SocketAddr) -> Verdict {
        let flushed = tokio::task::spawn_blocking(move || ask(server, &["FLUSHALL".to_owned()]));
        if !matches!(flushed.await, Ok(Ok(_))) {
            return Err((State::NotTried, "the server cannot be flushed".to_owned()));
        }
        match self.hear_of(id, self.renewal(), false).await {
            Heard::Line(Line::Lost(_)) => Ok(()),
            Heard::Line(other) => wrong(format!("{other:?}")),
            Heard::Nothing(why) => missing(why),
        }
    }

    async fn end(&mut self) -> Verdict {
        self.pipe.close().await;
        match tokio::time::timeout(self.patience, self.pipe.ended()).await {
            Ok(_) => Ok(()),
            Err(_) => wrong("the worker runs on after the end of its input"),
        }
    }

    /// The next line, whatever it is about.
    async fn hear(&mut self, within: Duration) -> Heard {
        match tokio::time::timeout(within, self.output.next()).await {
            Ok(Some(Said::Line(line))) => Heard::Line(*line),
            Ok(Some(Said::Noise(why))) => Heard::Nothing(format!("no line: {why}")),
            Ok(None) => Heard::Nothing("the worker has ended".to_owned()),
            Err(_) => Heard::Nothing(format!("nothing came within {within:?}")),
        }
    }

    /// The next line about this attempt or hold. Renewals may come at any time.
    async fn hear_of(&mut self, id: u64, within: Duration, renewals: bool) -> Heard {
        let heard = async {
            loop {
                let line = match self.hear(within).await {
                    Heard::Line(line) => line,
                    nothing @ Heard::Nothing(_) => return nothing,
                };
                let renewal = matches!(line, Line::Renewed(_));
                if of(&line) == Some(id) && (renewals || !renewal) {
                    return Heard::Line(line);
                }
            }
        };
        // Renewals of a worker must not prolong the wait.
        match tokio::time::timeout(within, heard).await {
            Ok(heard) => heard,
            Err(_) => Heard::Nothing(format!("nothing came within {within:?}")),
        }
    }

    /// Whether the worker read its clock within the time in which the lab waited for it.
    fn reading(&mut self, line: &str, asked: u64, asked_ns: u64, heard_ns: u64) {
        self.readings += 1;
        let now = timestamp::mono_ns();
        if !(asked <= asked_ns && asked_ns <= heard_ns && heard_ns <= now) {
            let why = format!(
                "`{line}` has asked_ns {asked_ns} and heard_ns {heard_ns}; by CLOCK_BOOTTIME the \
                 order was sent at {asked} and answered before {now}"
            );
            self.wrong_clock.get_or_insert(why);
        }
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The attempt or hold that a line is about.
fn of(line: &Line) -> Option<u64> {
    match line {
        Line::Granted(granted) => Some(granted.id),
        Line::Refused(refused) => Some(refused.id),
        Line::Checked(checked) => Some(checked.id),
        Line::Renewed(renewed) => Some(renewed.id),
        Line::Lost(lost) => Some(lost.id),
        Line::Released(released) => Some(released.id),
        Line::Hello(_) | Line::Absent { .. } | Line::Event(_) => None,
    }
}
