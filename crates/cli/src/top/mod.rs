//! `quorumlock top`: a live table of the nodes and of named locks.

mod ask;
mod draw;
mod screen;
mod snapshot;

use std::time::Duration;

use quorumlock::env::parse_duration;
use quorumlock::{Error, Name};
use quorumlock_command::{Failure, Outcome, exit, print};
use quorumlock_watchdog::Clock;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use self::ask::{Asker, TIMEOUT};
use self::draw::{ASKING, Size, draw};
use self::screen::Screen;
use self::snapshot::{Sightings, Snapshot};
use crate::doctor::probe::Probe;
use crate::nodes::LockNodes;
use crate::servers::Servers;
use crate::text::no_node_url;

/// Watch the nodes and named locks in a live table; q ends it.
///
/// Per node: whether it answers and votes, how far its clock is ahead of the slowest, its
/// connections, its fencing marks, and the waiters for the named locks. Per lock: its holder, for
/// how long the table has seen that holder, the rest of the lease, and its waiters. Changes no
/// lock, and takes and gives back one of a reserved name each time. Without a terminal, and with
/// --json, it prints this once: then it exits with 0 if enough nodes answer and vote, with 69 if too
/// few answer, else with 78.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    nodes: LockNodes,

    /// Ask the nodes again after this time.
    #[arg(
        long, value_name = "TIME", value_parser = parse_duration, default_value = "1s"
    )]
    interval: Duration,

    /// Print JSON, once.
    #[arg(long)]
    json: bool,

    /// The names of locks to watch.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

pub(crate) async fn top(args: Args) -> Outcome {
    let mut asker = asker(&args).await?;
    let screen = if args.json { None } else { Screen::open()? };
    match screen {
        Some(screen) => live(&screen, asker, args.interval).await,
        None => {
            let snapshot = asker.snapshot().await;
            print(args.json, &snapshot)?;
            Ok(snapshot.exit_code())
        }
    }
}

async fn asker(args: &Args) -> Result<Asker, Failure> {
    let mut builder = args.nodes.patient(TIMEOUT);
    let prefix = builder.take_prefix().unwrap_or_default();
    let name = |name: &String| lock_name(&prefix, name);
    let names = args.names.iter().map(name).collect::<Result<Vec<_>, _>>()?;
    // The library says what is wrong with a URL.
    let locker = args.nodes.build(builder)??;
    let servers = Servers::find(&args.nodes, TIMEOUT).await?;
    let settings = args.nodes.settings();
    let probe = |url: &String| Probe::new(url, &settings, TIMEOUT);
    let probes = servers.urls.iter().map(probe).collect::<Result<Vec<_>, _>>()?;
    Ok(Asker::new(&servers, probes, locker, names, args.nodes.note_age()))
}

/// The name, unless it is a URL of a node in the wrong place.
fn lock_name(prefix: &str, text: &str) -> Result<Name, Failure> {
    no_node_url(text)?;
    Ok(Name::new(&format!("{prefix}{text}")).map_err(Error::from)?)
}

/// Draws until a key or a signal ends it.
async fn live(screen: &Screen, asker: Asker, interval: Duration) -> Outcome {
    let (sender, mut snapshots) = watch::channel(None);
    let mut ends = Ends::listen()?;
    let mut resized = listen(SignalKind::window_change())?;
    let mut keys = screen.keys();
    tokio::spawn(ask_again_and_again(asker, interval, sender));
    loop {
        let lines = picture(snapshots.borrow_and_update().as_ref(), screen.size());
        screen.show(&lines)?;
        tokio::select! {
            // The sender is never dropped.
            Ok(()) = snapshots.changed() => {}
            _ = resized.recv() => {}
            Some(key) = keys.recv() => match key {
                b'q' | b'Q' => return Ok(0),
                CTRL_C => return Ok(exit::INTERRUPTED),
                _ => {}
            },
            code = ends.next() => return Ok(code),
        }
    }
}

const CTRL_C: u8 = 3;

/// What the terminal shows: the snapshot, and in the last line how to end the program.
fn picture(snapshot: Option<&Snapshot>, size: Size) -> Vec<String> {
    let above = Size { height: size.height.saturating_sub(2), ..size };
    let mut lines = match snapshot {
        Some(snapshot) => draw(snapshot, above),
        None => vec![ASKING.chars().take(size.width).collect()],
    };
    lines.extend([String::new(), "q: quit".chars().take(size.width).collect()]);
    lines.truncate(size.height);
    lines
}

async fn ask_again_and_again(
    mut asker: Asker,
    interval: Duration,
    sender: watch::Sender<Option<Snapshot>>,
) {
    let (clock, mut sightings) = (Clock::system(), Sightings::default());
    loop {
        let mut snapshot = asker.snapshot().await;
        sightings.note(&mut snapshot.locks, clock.now());
        sender.send_replace(Some(snapshot));
        tokio::time::sleep(interval).await;
    }
}

/// The signals that end the program; it restores the terminal first.
struct Ends {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Ends {
    fn listen() -> Result<Self, Failure> {
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// The exit code once one of them has come.
    async fn next(&mut self) -> u8 {
        let ended_by = |kind: SignalKind| exit::SIGNAL + kind.as_raw_value().unsigned_abs() as u8;
        tokio::select! {
            _ = self.interrupt.recv() => exit::INTERRUPTED,
            _ = self.terminate.recv() => ended_by(SignalKind::terminate()),
            _ = self.hang_up.recv() => ended_by(SignalKind::hangup()),
        }
    }
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind)
        .map_err(|error| Failure::new(exit::SOFTWARE, format!("cannot catch signals: {error}")))
}
