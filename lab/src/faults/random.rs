//! Random numbers that a seed repeats.

use std::time::Duration;

/// Steele, Lea and Flood's `SplitMix64`.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one, 0 for 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }

    /// One of these.
    ///
    /// # Panics
    ///
    /// Of none.
    pub fn one<'all, T>(&mut self, all: &'all [T]) -> &'all T {
        let at = self.below(all.len() as u64);
        &all[usize::try_from(at).expect("an index")]
    }

    /// A time between these two.
    ///
    /// # Panics
    ///
    /// Where they lie more than half a million years apart.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let range = u64::try_from(most.saturating_sub(least).as_micros()).expect("a short time");
        least + Duration::from_micros(self.below(range + 1))
    }
}
