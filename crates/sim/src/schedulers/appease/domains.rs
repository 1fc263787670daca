//! Domains: CPUs that share a cache, and what waits there (`bpf/domains.bpf.h`, `bpf/scans.bpf.h`). Which are near, when one gives
//! tasks to another, and when it takes some, is computed by `bpf/policy/placement.h`.

use appease_policy::{
    PLACEMENT_DOMAIN_LOOKS, PLACEMENT_MOVE_NS, placement_excess, placement_is_due, placement_least_clock,
    placement_leaves, placement_near, placement_other, placement_room, placement_spares, placement_turn,
};

use crate::{CpuId, Topology};

/// CPUs that share a cache.
#[derive(Debug, Clone, Default)]
struct Domain {
    nr_cpus: u32,
    /// Those that run what nobody waits for, by bits. The kernel splits caches of more CPUs than a word has bits.
    plain: Vec<u64>,
    /// Where the next search for a CPU begins.
    next_look: u32,
    /// Virtual time of the party that waited when a task was last charged here.
    clock: u64,
    /// So many tasks are to go to another domain.
    gives: u32,
    gives_to: u32,
    /// So many of one party waited here at the last look, less those that went since.
    most_waiting: u32,
    /// By bits: domains where none that is due here was found since then.
    vain: u64,
    /// By then an idle CPU of another domain is called for what waits here.
    moves_ns: u64,
}

/// All of them, of which a power of two is in use.
#[derive(Debug)]
pub(super) struct Domains {
    topology: Topology,
    domains: Vec<Domain>,
    /// Which other domain is looked at next: here by turns, and not by chance.
    looks: u32,
}

impl Domains {
    pub(super) fn new(topology: Topology) -> Self {
        let domain = |index| {
            let nr_cpus = topology.cpus_of(index).len() as u32;
            let plain = vec![0; nr_cpus.div_ceil(64) as usize];
            Domain { nr_cpus, plain, ..Domain::default() }
        };
        let domains = (0..topology.number().next_power_of_two()).map(domain).collect();
        Self { topology, domains, looks: 0 }
    }

    pub(super) fn number(&self) -> u32 {
        self.domains.len() as u32
    }

    pub(super) fn of(&self, cpu: CpuId) -> u32 {
        self.topology.of(cpu)
    }

    pub(super) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// All others, the nearest first.
    pub(super) fn others(&self, home: u32) -> impl Iterator<Item = u32> + use<> {
        (1..self.number()).map(move |nth| placement_near(home, nth))
    }

    // Which CPUs a wake-up looks at

    /// Notes whether a CPU runs what nobody waits for.
    pub(super) fn note_plain(&mut self, cpu: CpuId, is_plain: bool) {
        let (domain, nth) = self.topology.place(cpu);
        let (word, bit) = (nth / 64, nth % 64);
        let word = &mut self.domains[domain as usize].plain[word as usize];
        *word = if is_plain { *word | 1 << bit } else { *word & !(1 << bit) };
    }

    /// The CPUs of a domain that do, by number.
    pub(super) fn plain_cpus(&self, domain: u32) -> impl Iterator<Item = CpuId> {
        let cpus = self.topology.cpus_of(domain);
        cpus.chunks(64).zip(&self.domains[domain as usize].plain).flat_map(|(cpus, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(cpus[bit as usize])
            })
        })
    }

    /// Whether any does.
    pub(super) fn runs_plain(&self, domain: u32) -> bool {
        self.domains[domain as usize].plain.iter().any(|&word| word != 0)
    }

    /// Domains at which a wake-up looks that comes from one, nearest first: that one, and others.
    pub(super) fn near(&self, home: u32) -> impl Iterator<Item = u32> + use<> {
        std::iter::once(home).chain(self.others(home)).take(PLACEMENT_DOMAIN_LOOKS as usize)
    }

    /// Where a search in a domain begins: one CPU further than the last one did.
    pub(super) fn begin_look(&mut self, domain: u32) -> u32 {
        let next = &mut self.domains[domain as usize].next_look;
        std::mem::replace(next, next.wrapping_add(1))
    }

    /// The CPUs of a domain, each once, by a search that begins there.
    pub(super) fn cpus_from(&self, domain: u32, first: u32) -> impl Iterator<Item = CpuId> {
        let cpus = self.topology.cpus_of(domain);
        (0..cpus.len() as u32).map(move |nth| cpus[placement_turn(first, nth, cpus.len() as u32) as usize])
    }

    // Where a task waits

    /// The domain in which a task of a CPU waits. So many of its party wait in that CPU's own.
    pub(super) fn for_task(&mut self, cpu: CpuId, wakes_up: bool, waiting: u32) -> u32 {
        let home = self.of(cpu);
        let domain = &mut self.domains[home as usize];
        if !placement_leaves(wakes_up, domain.gives) || !placement_spares(waiting, domain.most_waiting) {
            return home;
        }
        domain.gives -= 1;
        domain.most_waiting = domain.most_waiting.saturating_sub(1);
        domain.gives_to
    }

    /// Ten times a second: which domain gives how many tasks to which other one. So many wait in each, and so many there of one party.
    pub(super) fn share_out(&mut self, waiting_in: &mut [u32], most_in: &[u32]) {
        for (domain, &most) in self.domains.iter_mut().zip(most_in) {
            domain.most_waiting = most;
        }
        let (waiting, cpus) = (waiting_in.iter().sum(), self.domains.iter().map(|domain| domain.nr_cpus).sum());
        for index in 0..self.domains.len() {
            let domain = &self.domains[index];
            let excess = placement_excess(waiting, cpus, domain.nr_cpus, waiting_in[index]);
            let room = |(domain, &here): (&Domain, &u32)| placement_room(waiting, cpus, domain.nr_cpus, here);
            let (mut taker, mut most) = (0, 0);
            if excess > 0 {
                for (other, room) in self.domains.iter().zip(&*waiting_in).map(room).enumerate() {
                    if room > most {
                        (taker, most) = (other, room);
                    }
                }
            }
            let domain = &mut self.domains[index];
            domain.gives = excess.min(most);
            domain.gives_to = taker as u32;
            waiting_in[taker] += domain.gives;
        }
    }

    // When one takes from another

    /// An idle CPU of another domain is to come for what waits in a domain: in how many ns. `None` if one will be called already.
    pub(super) fn moves_in(&mut self, domain: u32, now_ns: u64) -> Option<u64> {
        let domain = &mut self.domains[domain as usize];
        if now_ns < domain.moves_ns {
            return None;
        }
        domain.moves_ns = now_ns + u64::from(PLACEMENT_MOVE_NS);
        Some(PLACEMENT_MOVE_NS.into())
    }

    /// Where the clock of a domain stands.
    pub(super) fn clock(&self, domain: u32) -> u64 {
        self.domains[domain as usize].clock
    }

    /// A party at a virtual time is chosen in a domain, or none waits beside it.
    pub(super) fn advance(&mut self, domain: u32, vtime: u64) {
        let clock = &mut self.domains[domain as usize].clock;
        *clock = vtime.max(*clock);
    }

    /// Ten times a second: moves clocks up that lag too far behind the foremost.
    pub(super) fn compare_clocks(&mut self) {
        let foremost = self.domains.iter().map(|domain| domain.clock).max().unwrap_or(0);
        let least = placement_least_clock(foremost, self.number());
        for domain in &mut self.domains {
            domain.vain = 0;
            // At the beginning, the least is before the beginning.
            if domain.clock.wrapping_sub(least).cast_signed() < 0 {
                domain.clock = least;
            }
        }
    }

    /// Another domain, if its clock is so far behind that a party may be due here.
    pub(super) fn behind(&mut self, here: u32) -> Option<u32> {
        if self.number() == 1 {
            return None;
        }
        self.looks = self.looks.wrapping_add(1);
        let there = placement_other(here, self.looks, self.number());
        let is_vain = self.domains[here as usize].vain >> there & 1 > 0;
        (!is_vain && self.is_due(self.clock(there), here)).then_some(there)
    }

    /// Whether a party, or a clock, at a virtual time is due in a domain.
    pub(super) fn is_due(&self, vtime: u64, here: u32) -> bool {
        placement_is_due(vtime, self.clock(here), self.number())
    }

    /// None was found there that is due here: until the next look nobody tries again.
    pub(super) fn none_is_due(&mut self, here: u32, there: u32) {
        self.domains[here as usize].vain |= 1 << there;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domains(cpus: u32, caches: u32) -> Domains {
        Domains::new(Topology::new(cpus, caches))
    }

    /// Those of three caches are four, of which the last has no CPU; nearest first.
    #[test]
    fn caches_are_domains() {
        let domains = domains(10, 3);
        assert_eq!((domains.number(), domains.of(3), domains.of(4), domains.of(9)), (4, 0, 1, 2));
        assert_eq!(domains.others(2).collect::<Vec<_>>(), [3, 0, 1]);
    }

    #[test]
    fn plain_cpus_are_known_by_bits() {
        let mut domains = domains(300, 2);
        for cpu in [3, 149, 150, 299] {
            domains.note_plain(cpu, true);
        }
        domains.note_plain(3, false);
        assert_eq!(domains.plain_cpus(0).collect::<Vec<_>>(), [149]);
        assert_eq!(domains.plain_cpus(1).collect::<Vec<_>>(), [150, 299]);
    }

    #[test]
    fn cpus_are_looked_at_by_turns() {
        let mut domains = domains(6, 2);
        let mut looked = |domain: u32| {
            let first = domains.begin_look(domain);
            domains.cpus_from(domain, first).collect::<Vec<_>>()
        };
        assert_eq!([looked(1), looked(1), looked(0)], [[3, 4, 5], [4, 5, 3], [0, 1, 2]]);
    }

    /// What a domain has beyond its part goes to those that lack most, one at the end of each turn; a task that wakes up stays.
    #[test]
    fn the_full_give_to_the_empty() {
        let mut domains = domains(4, 4);
        domains.share_out(&mut [9, 0, 2, 1], &[6, 0, 2, 1]);
        assert_eq!(domains.for_task(0, true, 5), 0);
        assert_eq!(domains.for_task(0, false, 4), 0, "of another party more wait");
        let given: Vec<u32> = (0..5).map(|_| domains.for_task(0, false, 5)).collect();
        assert_eq!(given, [1, 1, 1, 0, 0], "three are the part of each, and one gives to one");
        assert_eq!(domains.for_task(2, false, 5), 2);
    }

    /// Where the party had 25 ms less than here it is due here, unless none may run.
    #[test]
    fn the_party_is_due_where_it_had_less() {
        let mut domains = domains(2, 2);
        domains.advance(1, 30_000_000);
        assert_eq!((domains.behind(1), domains.behind(0)), (Some(0), None));
        assert_eq!((domains.is_due(4_000_000, 1), domains.is_due(6_000_000, 1)), (true, false));
        domains.none_is_due(1, 0);
        assert_eq!(domains.behind(1), None);
        domains.compare_clocks();
        assert_eq!(domains.behind(1), Some(0));
    }
}
