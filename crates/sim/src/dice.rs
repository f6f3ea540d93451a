/// The source of randomness in a run (xoshiro256++).
///
/// The project has its own generator, because a seed must always mean the same run: the generators
/// of `rand` may change with its version.
#[derive(Clone, Debug)]
pub struct Dice([u64; 4]);

impl Dice {
    /// `stream` separates the draws of one part of the world from those of the others, so that a
    /// change to one part leaves the other draws of a seed unchanged.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut x = seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self(std::array::from_fn(|_| {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }))
    }

    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
        let out = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// A number in 0..1, uniformly distributed.
    pub fn fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && self.fraction() < p
    }

    /// A number from `low` to `high`, both included, uniformly distributed.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + ((u128::from(self.next_u64()) * u128::from(high - low + 1)) >> 64) as u64
    }

    /// A number from `low` to `high` whose logarithm is uniformly distributed: each order of
    /// magnitude is equally likely.
    pub fn spread(&mut self, low: u64, high: u64) -> u64 {
        let (a, b) = ((low.max(1) as f64).ln(), (high.max(1) as f64).ln());
        ((a + (b - a) * self.fraction()).exp() as u64).clamp(low, high)
    }

    /// An index below `len`.
    pub fn index(&mut self, len: usize) -> usize {
        self.within(0, len as u64 - 1) as usize
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }
}
