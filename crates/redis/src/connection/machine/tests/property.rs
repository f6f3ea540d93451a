use proptest::prelude::*;

use crate::connection::machine::exercise::exercise;
use crate::connection::machine::harness::INCARNATION;

/// How many inputs, and how many replies are in each.
const INPUTS: u32 = 500;
const REPLIES: usize = 2_000;

proptest! {
    #![proptest_config(ProptestConfig { cases: INPUTS, failure_persistence: None, ..Default::default() })]

    /// A million replies, of which one in 16 is spoilt, in all setups and in random pieces.
    #[test]
    fn no_reply_panics_or_hangs_and_each_request_is_answered_once(seed in any::<u64>()) {
        exercise(&input(Dice(seed)));
    }

    #[test]
    fn nor_do_random_bytes(data in proptest::collection::vec(any::<u8>(), 0..600)) {
        exercise(&data);
    }
}

/// A small generator (splitmix64): proptest's own takes longer than the machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.roll() % n as u64) as usize
    }
}

fn input(mut dice: Dice) -> Vec<u8> {
    let mut data = vec![dice.roll() as u8, 255];
    data.extend((0..255).map(|_| dice.roll() as u8));
    for _ in 0..REPLIES {
        let mut reply = reply(&mut dice).into_bytes();
        if dice.below(16) == 0 {
            spoil(&mut reply, &mut dice);
        }
        data.extend_from_slice(&reply);
    }
    data
}

fn reply(dice: &mut Dice) -> String {
    match dice.below(20) {
        0..6 => format!(":{}\r\n", dice.below(5)),
        6 => format!(":{}\r\n", dice.roll().cast_signed()),
        7..10 => "+OK\r\n".into(),
        10 => "+QUEUED\r\n".into(),
        11 => "$-1\r\n".into(),
        12 => "*-1\r\n".into(),
        13 => format!("*1\r\n:{}\r\n", dice.below(9_999)),
        14 => "*2\r\n:1\r\n*2\r\n$10\r\n1790000000\r\n$1\r\n5\r\n".into(),
        15 => "$3\r\nabc\r\n".into(),
        16 => format!("*4\r\n*1\r\n:1\r\n$32\r\n{INCARNATION}\r\n+OK\r\n:1\r\n"),
        17 => "*3\r\n$2\r\nab\r\n$1\r\n1\r\n:90\r\n".into(),
        18 => "*2\r\n+OK\r\n:1\r\n".into(),
        _ => ERRORS[dice.below(ERRORS.len())].into(),
    }
}

const ERRORS: [&str; 11] = [
    "-NOSCRIPT No matching script\r\n",
    "-READONLY replica\r\n",
    "-UNPROVEN other\r\n",
    "-MASTERDOWN Link\r\n",
    "-EXECABORT Transaction discarded\r\n",
    "-ERR unknown command\r\n",
    "-NOPERM no\r\n",
    "-BUSYKEY exists\r\n",
    "-WRONGTYPE Operation\r\n",
    "-OOM command\r\n",
    "-LOADING dataset\r\n",
];

/// Cuts, repeats, changes or inserts a byte.
fn spoil(reply: &mut Vec<u8>, dice: &mut Dice) {
    let at = dice.below(reply.len());
    match dice.below(4) {
        0 => reply.truncate(at),
        1 => reply.extend_from_within(at..),
        2 => reply[at] = dice.roll() as u8,
        _ => reply.insert(at, dice.roll() as u8),
    }
}
