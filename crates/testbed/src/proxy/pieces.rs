use std::io::Read as _;
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use quorumlock_watchdog::Clock;

/// Waits for the next piece of a stream. The piece is empty at the end of the stream.
pub(super) type Pieces = Box<dyn FnMut() -> Vec<u8>>;

/// How long a way takes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// For each piece; others are under way meanwhile.
    pub(super) delay: Duration,
    /// For each byte; all others wait meanwhile. Only without a delay.
    pub(super) for_each_byte: Duration,
}

/// How much a line makes up for sleeps that took too long. A longer gap was an idle line.
const MADE_UP: Duration = Duration::from_millis(200);

/// What arrives on the stream, each piece when the pace lets it.
pub(super) fn pieces(mut stream: TcpStream, pace: Pace) -> Pieces {
    let Pace { delay, for_each_byte } = pace;
    if delay.is_zero() {
        let clock = Clock::system();
        let mut free_at = clock.now();
        return Box::new(move || {
            let piece = read(&mut stream);
            let now = clock.now();
            let begun = if now.since(free_at) < MADE_UP { free_at } else { now };
            free_at = begun + for_each_byte * u32::try_from(piece.len()).unwrap_or(u32::MAX);
            thread::sleep(free_at.since(now));
            piece
        });
    }
    let (sender, arrived) = mpsc::channel();
    // A thread of its own reads: otherwise a piece would also wait for the pieces before it.
    thread::spawn(move || {
        loop {
            let piece = read(&mut stream);
            let end = piece.is_empty();
            if sender.send((Clock::system().now() + delay, piece)).is_err() || end {
                break;
            }
        }
    });
    Box::new(move || {
        let Ok((due, piece)) = arrived.recv() else { return Vec::new() };
        thread::sleep(due.since(Clock::system().now()));
        piece
    })
}

fn read(stream: &mut TcpStream) -> Vec<u8> {
    let mut piece = vec![0; 4096];
    let count = stream.read(&mut piece).unwrap_or(0);
    piece.truncate(count);
    piece
}
