//! Random numbers that a seed repeats.

/// A generator: SplitMix64 (Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, 2014).
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// One that begins with this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 where there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        // By 2^-32 uneven at most, for ends of nanoseconds in a minute.
        self.next().checked_rem(end).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_numbers_and_all_come() {
        let numbers = |seed| {
            let mut chance = Chance::new(seed);
            std::array::from_fn::<_, 200, _>(|_| chance.below(10))
        };
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
        assert!((0..10).all(|number| numbers(1).contains(&number)));
        assert_eq!(Chance::new(1).below(0), 0);
    }
}
