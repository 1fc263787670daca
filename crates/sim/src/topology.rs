//! Which CPUs of a machine share a cache or a core, how fast they are, and which of them are idle.

use appease_policy::{PLACEMENT_DOMAIN_LOOKS, placement_near};

use crate::{CpuId, Scenario, set::IdSet};

/// The capacity of a CPU for which times of work are given.
pub const FULL_CAPACITY: u32 = 1024;

/// So many tenths of the slowest CPU's capacity make the fastest one count as fast. That is the rule of `scx_utils`, by which the daemon
/// goes (`crates/bpf/src/domains.rs`).
const SLOW_TENTHS: u32 = 13;

/// The CPUs of a machine. Each cache has as many, side by side, and the last one may have fewer; each core has as many. The fast CPUs of a
/// cache are a domain, and the slow ones are another, as on the kernel's side.
#[derive(Debug, Clone)]
pub struct Topology {
    nr_cpus: u32,
    threads: u32,
    /// By CPU; none, where all are alike.
    capacities: Vec<u32>,
    /// By domain.
    cpus: Vec<Vec<CpuId>>,
    /// By CPU: its domain, and its number there. None, where there is one domain.
    places: Vec<(u32, u32)>,
    /// Domains of fast CPUs, by bits; none, where all are alike.
    fast: u64,
}

impl Topology {
    /// So many CPUs in so many caches, of which those are left out that would have none.
    #[must_use]
    pub fn new(cpus: u32, caches: u32) -> Self {
        Self::with(cpus, caches, 1, &[])
    }

    /// That of a checked scenario.
    #[must_use]
    pub fn of_scenario(scenario: &Scenario) -> Self {
        let (cpus, caches) = (*scenario.cpus.get_ref(), *scenario.caches.get_ref());
        Self::with(cpus, caches, *scenario.threads.get_ref(), scenario.capacities.get_ref())
    }

    /// With so many CPUs of each core, and the capacities of all CPUs; without any, all are alike.
    pub(crate) fn with(nr_cpus: u32, caches: u32, threads: u32, capacities: &[u32]) -> Self {
        let each = nr_cpus.div_ceil(caches.max(1)).max(1);
        let is_slow = slow_ones(capacities);
        let (mut cpus, mut fast) = (Vec::new(), 0);
        for first in (0..nr_cpus).step_by(each as usize) {
            let (slow_cpus, fast_cpus): (Vec<CpuId>, Vec<CpuId>) =
                (first..nr_cpus.min(first + each)).partition(|&cpu| is_slow.get(cpu as usize) == Some(&true));
            if !fast_cpus.is_empty() {
                // A scenario with more domains than a word has bits is refused.
                fast |= 1u64.checked_shl(cpus.len() as u32).unwrap_or(0);
                cpus.push(fast_cpus);
            }
            if !slow_cpus.is_empty() {
                cpus.push(slow_cpus);
            }
        }
        let mut places = if cpus.len() > 1 { vec![(0, 0); nr_cpus as usize] } else { Vec::new() };
        for (domain, of) in (0..).zip(&cpus) {
            for (nth, &cpu) in (0..).zip(of) {
                if let Some(place) = places.get_mut(cpu as usize) {
                    *place = (domain, nth);
                }
            }
        }
        let fast = if is_slow.contains(&true) { fast } else { 0 };
        Self { nr_cpus, threads, capacities: capacities.to_vec(), cpus, places, fast }
    }

    /// How many domains there are.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.cpus.len() as u32
    }

    /// How many CPUs there are.
    #[must_use]
    pub fn nr_cpus(&self) -> u32 {
        self.nr_cpus
    }

    /// How many CPUs each core has.
    #[must_use]
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// The domain of a CPU.
    #[must_use]
    pub fn of(&self, cpu: CpuId) -> u32 {
        self.place(cpu).0
    }

    /// The domain of a CPU, and its number there.
    #[must_use]
    pub fn place(&self, cpu: CpuId) -> (u32, u32) {
        self.places.get(cpu as usize).copied().unwrap_or((0, cpu))
    }

    /// The CPUs of a domain; of one that is not there, none.
    #[must_use]
    pub fn cpus_of(&self, domain: u32) -> &[CpuId] {
        self.cpus.get(domain as usize).map_or(&[], Vec::as_slice)
    }

    /// The CPUs of a CPU's core.
    pub(crate) fn core_of(&self, cpu: CpuId) -> std::ops::Range<CpuId> {
        let first = self.first_of_core(cpu);
        first..first + self.threads
    }

    fn first_of_core(&self, cpu: CpuId) -> CpuId {
        cpu / self.threads * self.threads
    }

    /// The next CPU of the same core, after the last one the first.
    #[must_use]
    pub fn next_in_core(&self, cpu: CpuId) -> CpuId {
        let first = self.first_of_core(cpu);
        first + (cpu + 1 - first) % self.threads
    }

    /// How fast a CPU is, of [`FULL_CAPACITY`].
    #[must_use]
    pub fn capacity(&self, cpu: CpuId) -> u32 {
        self.capacities.get(cpu as usize).copied().unwrap_or(FULL_CAPACITY)
    }

    /// Whether some CPUs are slow.
    #[must_use]
    pub fn has_slow(&self) -> bool {
        self.fast != 0
    }

    /// Whether a domain is one of fast CPUs, on a machine that has slow ones, too.
    #[must_use]
    pub fn is_fast(&self, domain: u32) -> bool {
        self.fast >> domain & 1 == 1
    }
}

/// By CPU, whether it is slow: slower than the mean, on a machine whose slowest CPU is much slower than the fastest.
fn slow_ones(capacities: &[u32]) -> Vec<bool> {
    let (Some(&most), Some(&least)) = (capacities.iter().max(), capacities.iter().min()) else { return Vec::new() };
    let mean = capacities.iter().sum::<u32>() / capacities.len() as u32;
    let has_slow = 10 * most >= SLOW_TENTHS * least;
    capacities.iter().map(|&capacity| has_slow && capacity < mean).collect()
}

/// Some CPUs, by domain and number there.
#[derive(Debug)]
struct Members {
    sets: Vec<IdSet>,
    /// Domains with some of them, by bits.
    some: u64,
}

impl Members {
    /// None of these.
    fn none(topology: &Topology) -> Self {
        Self { sets: topology.cpus.iter().map(|cpus| IdSet::new(cpus.len() as u32)).collect(), some: 0 }
    }

    fn contains(&self, (domain, nth): (u32, u32)) -> bool {
        self.sets[domain as usize].contains(nth)
    }

    fn insert(&mut self, (domain, nth): (u32, u32)) {
        self.sets[domain as usize].insert(nth);
        self.some |= 1 << domain;
    }

    fn remove(&mut self, (domain, nth): (u32, u32)) {
        self.sets[domain as usize].remove(nth);
        if self.sets[domain as usize].any().is_none() {
            self.some &= !(1 << domain);
        }
    }

    fn any_of(&self, topology: &Topology, domain: u32) -> Option<CpuId> {
        if self.some >> domain & 1 == 0 {
            return None;
        }
        Some(topology.cpus_of(domain)[self.sets[domain as usize].any()? as usize])
    }

    /// Of the nearest domain that has any.
    fn any_near(&self, topology: &Topology, home: u32) -> Option<CpuId> {
        let most = topology.number().next_power_of_two();
        let domain = (0..most).map(|nth| placement_near(home, nth)).find(|&domain| self.some >> domain & 1 == 1)?;
        self.any_of(topology, domain)
    }
}

/// The idle CPUs.
#[derive(Debug)]
pub(crate) struct Idle {
    topology: Topology,
    cpus: Members,
    /// First CPUs of the cores of which all are; not there where each core has one CPU.
    cores: Option<Members>,
}

impl Idle {
    /// All are.
    pub(crate) fn all(topology: Topology) -> Self {
        let cores = (topology.threads > 1).then(|| Members::none(&topology));
        let mut idle = Self { cpus: Members::none(&topology), cores, topology };
        // The first one is found first.
        (0..idle.topology.nr_cpus).rev().for_each(|cpu| idle.insert(cpu));
        idle
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    pub(crate) fn insert(&mut self, cpu: CpuId) {
        self.cpus.insert(self.topology.place(cpu));
        if let Some(cores) = &mut self.cores {
            let mut core = self.topology.core_of(cpu);
            if core.all(|cpu| self.cpus.contains(self.topology.place(cpu))) {
                cores.insert(self.topology.place(self.topology.first_of_core(cpu)));
            }
        }
    }

    pub(crate) fn remove(&mut self, cpu: CpuId) {
        if self.cpus.some == 0 {
            return;
        }
        self.cpus.remove(self.topology.place(cpu));
        if let Some(cores) = &mut self.cores {
            cores.remove(self.topology.place(self.topology.first_of_core(cpu)));
        }
    }

    /// Whole cores, and then single CPUs; and where to look for a CPU among them.
    fn levels(&self, cpu: CpuId) -> impl Iterator<Item = (&Members, (u32, u32))> {
        let core = self.topology.place(self.topology.first_of_core(cpu));
        let cores = self.cores.iter().map(move |cores| (cores, core));
        cores.chain(std::iter::once((&self.cpus, self.topology.place(cpu))))
    }

    /// One with an idle core, if there is one, and of those `cpu`, if it is idle, else one near it.
    pub(crate) fn near(&self, cpu: CpuId) -> Option<CpuId> {
        if self.cpus.some == 0 {
            return None;
        }
        self.levels(cpu).find_map(|(members, place)| {
            if members.contains(place) { Some(cpu) } else { members.any_near(&self.topology, place.0) }
        })
    }

    /// The same of the domain of `cpu`.
    pub(crate) fn beside(&self, cpu: CpuId) -> Option<CpuId> {
        self.levels(cpu).find_map(|(members, place)| {
            if members.contains(place) { Some(cpu) } else { members.any_of(&self.topology, place.0) }
        })
    }

    /// One of a domain; with an idle core, if there is one.
    pub(crate) fn of_domain(&self, domain: u32) -> Option<CpuId> {
        let levels = self.cores.iter().chain([&self.cpus]);
        levels.into_iter().find_map(|members| members.any_of(&self.topology, domain))
    }

    /// The same of the nearest domains of fast CPUs, or of slow ones.
    pub(crate) fn of_speed(&self, cpu: CpuId, is_fast: bool) -> Option<CpuId> {
        let home = self.topology.of(cpu);
        let levels = self.cores.iter().chain([&self.cpus]);
        levels.into_iter().find_map(|members| {
            let near = (0..PLACEMENT_DOMAIN_LOOKS.min(self.topology.number().next_power_of_two()))
                .map(|nth| placement_near(home, nth))
                .filter(|&domain| self.topology.is_fast(domain) == is_fast);
            near.filter_map(|domain| members.any_of(&self.topology, domain)).next()
        })
    }

    /// One with an idle core: of the domain of `cpu`, or near it.
    pub(crate) fn core_near(&self, cpu: CpuId) -> Option<CpuId> {
        self.cores.as_ref()?.any_near(&self.topology, self.topology.of(cpu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(mut idle: Idle, cpus: &[CpuId]) -> Idle {
        cpus.iter().for_each(|&cpu| idle.remove(cpu));
        idle
    }

    #[test]
    fn caches_are_domains() {
        let topology = Topology::new(10, 3);
        assert_eq!((topology.number(), topology.of(3), topology.of(4), topology.of(9)), (3, 0, 1, 2));
        assert_eq!(topology.cpus_of(2), [8, 9]);
        assert_eq!((topology.cpus_of(3), topology.place(9)), (&[][..], (2, 1)));
    }

    /// Fast and slow CPUs of a cache are two domains. The second cache has slow ones alone.
    #[test]
    fn slow_cpus_of_a_cache_are_a_domain_of_their_own() {
        let topology = Topology::with(8, 2, 1, &[500, 1024, 1024, 500, 500, 500, 500, 500]);
        assert_eq!(
            [0, 1, 2].map(|domain| topology.cpus_of(domain).to_vec()),
            [vec![1, 2], vec![0, 3], vec![4, 5, 6, 7]]
        );
        assert_eq!([0, 1, 2].map(|domain| topology.is_fast(domain)), [true, false, false]);
    }

    /// Speeds that differ by less than 1.3 times make no slow CPU.
    #[test]
    fn nearly_alike_is_alike() {
        let topology = Topology::with(4, 1, 1, &[1024, 1024, 800, 800]);
        assert_eq!((topology.number(), topology.has_slow(), topology.capacity(3)), (1, false, 800));
        assert!(Topology::with(4, 1, 1, &[1024, 1024, 787, 787]).has_slow());
    }

    /// A whole core goes before the CPU where a task ran whose core is at work, and a far one before a half near one.
    #[test]
    fn whole_cores_go_first() {
        let idle = taken(Idle::all(Topology::with(8, 2, 2, &[])), &[1]);
        assert_eq!((idle.near(0), idle.near(3)), (Some(2), Some(3)));
        let idle = taken(idle, &[3]);
        assert_eq!(idle.near(0), Some(4), "of the other cache");
        assert_eq!((idle.beside(0), idle.core_near(0)), (Some(0), Some(4)), "no whole one is in the same cache");
        let idle = taken(idle, &[5, 7]);
        assert_eq!((idle.near(0), idle.core_near(0)), (Some(0), None));
    }

    /// A core is whole again when all of its CPUs are idle.
    #[test]
    fn cores_become_whole_again() {
        let mut idle = taken(Idle::all(Topology::with(4, 1, 2, &[])), &[0, 1, 3]);
        idle.insert(0);
        assert_eq!(idle.core_near(2), None);
        idle.insert(1);
        assert_eq!(idle.core_near(2), Some(0));
    }

    #[test]
    fn idle_cpus_are_known_by_speed() {
        let capacities = [1024, 1024, 400, 400];
        let idle = taken(Idle::all(Topology::with(4, 1, 1, &capacities)), &[0]);
        assert_eq!((idle.of_speed(3, true), idle.of_speed(0, false)), (Some(1), Some(2)));
        let idle = taken(idle, &[1]);
        assert_eq!((idle.of_speed(0, true), idle.near(0), idle.of_domain(0)), (None, Some(2), None));
    }
}
