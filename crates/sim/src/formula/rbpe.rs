//! Section 5: request based priority elevation on top of CFS.

/// The situation of section 5.1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Elevated {
    /// *sch_lat*, s.
    pub sch_lat_s: f64,
    /// N.
    pub tasks: u32,
    /// Levels by which whoever serves the request is elevated at first, *nice* of the paper, 1 to 15.
    pub nice: u32,
}

impl Elevated {
    /// Weight in turn i, from 0, of nice 0's: a level less each turn.
    fn weight(&self, turn: u32) -> f64 {
        1.25f64.powi(self.nice.saturating_sub(turn) as i32)
    }

    fn others(&self) -> f64 {
        f64::from(self.tasks) - 1.0
    }

    /// `1.25^(nice - i) / (N - 1 + 1.25^(nice - i))`: a share of the CPU, without a unit.
    fn share(&self, turn: u32) -> f64 {
        self.weight(turn) / (self.others() + self.weight(turn))
    }

    /// How long all others run between turn i and the next, s.
    fn pause_s(&self, turn: u32) -> f64 {
        self.others() * self.sch_lat_s / (self.others() + self.weight(turn))
    }
}

/// Eq. 19 (section 5.1): slices, s, of the elevated process and of each other one.
#[must_use]
pub fn eq19(at: Elevated) -> (f64, f64) {
    (at.share(0) * at.sch_lat_s, at.sch_lat_s / (at.others() + at.weight(0)))
}

/// Eq. 20 (section 5.1): least unhappiness, s, over a request that is done in its first slice: 0.
#[must_use]
pub fn eq20() -> f64 {
    0.0
}

/// Eq. 21 (section 5.1): unhappiness over a request of three parts that take `turns` turns (Z1, Z2, Z3):
/// for each, `Σ_{i=0}^{Z-2} (N-1) sch_lat / (N-1+1.25^(nice-i)) - Σ_{i=1}^{Z-1} 1.25^(nice-i) / (N-1+1.25^(nice-i))`.
///
/// Wrong: the second sums are numbers, the first are times.
#[must_use]
pub fn eq21(at: Elevated, turns: [u32; 3]) -> f64 {
    turns.into_iter().map(|turns| pauses(at, turns) - shares(at, turns)).sum()
}

/// Eq. 22 (section 5.1): τ, said to be the CPU time of the whole request: the second sums of eq. 21.
///
/// Wrong: without a unit, and without each part's first turn.
#[must_use]
pub fn eq22(at: Elevated, turns: [u32; 3]) -> f64 {
    turns.into_iter().map(|turns| shares(at, turns)).sum()
}

/// Eq. 23 (section 5.1): eq. 21 with τ, s, in place of eq. 22. Wrong: CPU time counts twice.
#[must_use]
pub fn eq23(at: Elevated, turns: [u32; 3], total_s: f64) -> f64 {
    turns.into_iter().map(|turns| pauses(at, turns)).sum::<f64>() - total_s
}

/// Eq. 25 (section 5.2): longest request, s, over which there is no unhappiness: the slice of eq. 19. Sufficient.
#[must_use]
pub fn eq25(at: Elevated) -> f64 {
    eq19(at).0
}

/// Eq. 27 (section 5.2): eq. 23.
#[must_use]
pub fn eq27(at: Elevated, turns: [u32; 3], total_s: f64) -> f64 {
    eq23(at, turns, total_s)
}

/// Turns that a part of `part_s` seconds takes when a level is lost after each: Z of the equations.
#[must_use]
pub fn turns(at: Elevated, part_s: f64) -> u32 {
    let (mut left_s, mut turn) = (part_s, 0);
    loop {
        left_s -= at.share(turn) * at.sch_lat_s;
        turn += 1;
        // What is left of a turn by rounding needs no further one.
        if left_s <= 1e-6 {
            return turn;
        }
    }
}

/// What eq. 21 to 23 and 27 should be by section 2.2, s: the pauses between the turns of each part, and nothing taken off.
#[must_use]
pub fn rbpe_unhappiness(at: Elevated, parts_s: &[f64]) -> f64 {
    parts_s.iter().map(|&part_s| pauses(at, turns(at, part_s))).sum()
}

fn pauses(at: Elevated, turns: u32) -> f64 {
    (0..turns.saturating_sub(1)).map(|turn| at.pause_s(turn)).fold(0.0, |sum, pause_s| sum + pause_s)
}

fn shares(at: Elevated, turns: u32) -> f64 {
    (1..turns).map(|turn| at.share(turn)).fold(0.0, |sum, share| sum + share)
}
