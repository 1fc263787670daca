//! What each policy wants done for a process, by what the eyes know of it.

use appease_policy::{
    elevation_delay_ns, elevation_left, elevation_lost, elevation_network, elevation_row, elevation_unix,
};

use crate::seams::{Policy, Process, Raises, SenseOptions};

/// Levels for who is attended: as far as they go. At 16 hogs that is five sixths of a CPU, where 13 levels would be one half.
const ATTENDED_LEVELS: u32 = 20;
/// Levels for handlers and cohandlers, the paper's (RSIO section 5).
const HANDLER_LEVELS: u32 = 10;
/// How often somebody is looked at who is served, and whose CPU time is charged.
pub(crate) const LOOK_NS: u64 = 100_000_000;
/// How often somebody is looked at who may have ended, and is not to be looked at otherwise.
const GONE_NS: u64 = 60_000_000_000;

/// What is done for a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// Nice levels better than its own.
    pub levels: u32,
    /// Whether it gets a short slice: no more of the CPU, but at once when it wakes up.
    pub prompt: bool,
}

impl Target {
    /// Whether nothing is done.
    pub(crate) fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// What is to be done, and when that is to be looked at anew; `None`: not before the eyes tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub target: Target,
    pub look_ns: Option<u64>,
}

/// Policies appease, cas and rsio.
pub(crate) fn by_attention(options: &SenseOptions, process: &Process, now_ns: u64) -> Wanted {
    let soon = Some(now_ns + LOOK_NS);
    if options.policy == Policy::Rsio {
        let until_ns = process.handler.as_ref().map_or(0, |of| of.primary_until_ns.max(of.co_until_ns));
        let levels = if now_ns < until_ns { HANDLER_LEVELS } else { 0 };
        return Wanted { target: Target { levels, prompt: levels > 0 }, look_ns: soon.filter(|_| levels > 0) };
    }
    let attention = process.attention.as_ref();
    if attention.is_some_and(|attention| attention.is_live(now_ns)) {
        return Wanted { target: Target { levels: ATTENDED_LEVELS, prompt: true }, look_ns: soon };
    }
    let prompt = Target { levels: 0, prompt: true };
    // It will read its channel again, and must wake up before that. A loan, without a loan's debt: it is not more of the CPU.
    if process.channel_read_ns > 0 {
        return Wanted { target: prompt, look_ns: Some(now_ns + GONE_NS) };
    }
    let retention_ns = u64::try_from(options.retention.saturating_sub(options.attention).as_nanos()).unwrap_or(0);
    let retained_ns = attention
        .filter(|attention| attention.request.served_ns < attention.request.budget_ns)
        .map_or(0, |attention| attention.until_ns.saturating_add(retention_ns));
    if now_ns < retained_ns {
        return Wanted { target: prompt, look_ns: Some(retained_ns) };
    }
    Wanted { target: Target::default(), look_ns: None }
}

/// Policy rbpe: what a process was raised by, and since when.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Raised {
    levels: u32,
    since_ns: u64,
    /// Reads that were taken into account.
    seen_ns: [u64; 2],
}

impl Raised {
    /// Takes new reads into account, and the time that has passed since. A read from a network socket does not lower who has
    /// more left from a local one.
    pub(crate) fn follow(&mut self, read_ns: [u64; 2], avenrun: u64, now_ns: u64) -> Wanted {
        let row = elevation_row(avenrun);
        let delay_ns = elevation_delay_ns(row);
        let given = [elevation_unix(row), elevation_network(row)];
        for ((read_ns, seen_ns), levels) in read_ns.into_iter().zip(&mut self.seen_ns).zip(given) {
            if read_ns <= *seen_ns {
                continue;
            }
            *seen_ns = read_ns;
            let left = elevation_left(self.levels, read_ns.saturating_sub(self.since_ns), delay_ns);
            if levels > 0 && levels >= left {
                (self.levels, self.since_ns) = (levels, read_ns);
            }
        }
        let passed_ns = now_ns.saturating_sub(self.since_ns);
        self.levels = elevation_left(self.levels, passed_ns, delay_ns);
        self.since_ns += elevation_lost(passed_ns, delay_ns).saturating_mul(delay_ns).min(passed_ns);
        Wanted {
            target: Target { levels: self.levels, prompt: false },
            look_ns: (self.levels > 0).then(|| self.since_ns + delay_ns),
        }
    }
}

/// Policy rbpe: which reads raise at this load.
pub(crate) fn raises(avenrun: u64) -> Raises {
    let row = elevation_row(avenrun);
    Raises { unix: elevation_unix(row) > 0, network: elevation_network(row) > 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    /// 15 and 5 levels, of which one is lost each 600 ms.
    const HIGH: u64 = 20_000;
    /// Silence.
    const LOW: u64 = 1_000;

    fn levels(wanted: Wanted) -> (u32, Option<u64>) {
        (wanted.target.levels, wanted.look_ns.map(|ns| ns / MS))
    }

    #[test]
    fn a_read_raises_and_time_lowers() {
        let mut raised = Raised::default();
        let read = [1000 * MS, 0];
        assert_eq!(levels(raised.follow(read, HIGH, 1000 * MS)), (15, Some(1600)));
        assert_eq!(levels(raised.follow(read, HIGH, 1599 * MS)), (15, Some(1600)));
        assert_eq!(levels(raised.follow(read, HIGH, 1601 * MS)), (14, Some(2200)));
        // It need not be looked at on time.
        assert_eq!(levels(raised.follow(read, HIGH, 9_999 * MS)), (1, Some(10_000)));
        assert_eq!(levels(raised.follow(read, HIGH, 10_000 * MS)), (0, None));
    }

    #[test]
    fn each_read_begins_anew_but_a_remote_one_takes_nothing() {
        let mut raised = Raised::default();
        raised.follow([1000 * MS, 0], HIGH, 1000 * MS);
        assert_eq!(levels(raised.follow([2000 * MS, 0], HIGH, 2100 * MS)), (15, Some(2600)));
        assert_eq!(levels(raised.follow([2000 * MS, 2100 * MS], HIGH, 2100 * MS)), (15, Some(2600)));
        // Five are left by then: the remote read begins anew.
        assert_eq!(levels(raised.follow([2000 * MS, 8050 * MS], HIGH, 8060 * MS)), (5, Some(8650)));
    }

    #[test]
    fn silence_takes_all_at_once_and_gives_nothing() {
        let mut raised = Raised::default();
        raised.follow([1000 * MS, 0], HIGH, 1000 * MS);
        assert_eq!(levels(raised.follow([1001 * MS, 0], LOW, 1001 * MS)), (0, None));
        assert_eq!(raises(LOW), Raises::default());
        assert_eq!(raises(3000), Raises { unix: true, network: false });
        assert_eq!(raises(HIGH), Raises { unix: true, network: true });
    }
}
