//! Which CPUs share a cache, as the scheduler is told: `bpf/domains.bpf.h`.

use std::sync::Arc;

use scx_utils::{CoreType, Llc, Topology};
use tracing::{debug, warn};

/// Domains that the scheduler can tell apart.
const MOST: usize = 64;
/// CPUs of one domain, as many as bits in a word.
const MOST_CPUS: usize = 64;
/// CPUs of a machine that have a domain of their own.
pub(crate) const CPUS: usize = 4096;

/// The domain of each CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Domains {
    /// How many numbers are in use: a power of two.
    pub(crate) number: u32,
    /// By CPU.
    pub(crate) of_cpus: Box<[u8; CPUS]>,
    /// CPUs whose caches the kernel does not tell yet, for they are off: by bits, a word after the other.
    pub(crate) late: Box<[u64; CPUS / 64]>,
    /// Those of fast CPUs, by bits; none, where all are alike.
    pub(crate) fast: u64,
    /// By CPU: the next one of its core, after the last one the first.
    pub(crate) next_in_core: Box<[u16; CPUS]>,
}

/// CPUs of this machine by their numbers, as in `0-3,8`.
///
/// # Errors
/// What is allowed, if the text is no such list, or one of them is not there.
pub fn cpus_of_list(list: &str) -> Result<Vec<usize>, String> {
    let most = *scx_utils::NR_CPU_IDS;
    // The library's reader would list all numbers of a range first, however many.
    let group = |group: &str| {
        let group = group.trim();
        let (first, last) = group.split_once('-').unwrap_or((group, group));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        (first <= last && last < most).then_some(first..=last)
    };
    let groups: Option<Vec<_>> = list.split(',').map(group).collect();
    let cpus = groups.map(|groups| groups.into_iter().flatten().collect());
    cpus.ok_or_else(|| format!("a list of CPUs like 0,2-3; this machine has 0 to {}", most - 1))
}

impl Domains {
    /// Those of this machine. Where the kernel does not tell, all CPUs are in one, as far as one has room. `fast` CPUs
    /// are those that the kernel's word on their speed says, unless somebody else has said which.
    pub(crate) fn of_machine(nr_cpus: u32, fast: Option<&[usize]>) -> Self {
        let all = || vec![vec![(0..nr_cpus as usize).collect()]];
        if nr_cpus == 1 {
            return Self::of_caches(&all(), &|_| true);
        }
        let topology = Topology::new()
            .inspect_err(|error| warn!("the kernel does not tell which CPUs share a cache: {error:#}"))
            .ok();
        let nodes = topology.as_ref().map(nodes_of).filter(|nodes| !nodes.is_empty()).unwrap_or_else(all);
        let is_little = |cpu: &usize| {
            let known = topology.as_ref().and_then(|topology| topology.all_cpus.get(cpu));
            known.is_some_and(|cpu| cpu.core_type == CoreType::Little)
        };
        let mut domains =
            Self::of_caches(&nodes, &|cpu| fast.map_or_else(|| !is_little(cpu), |fast| fast.contains(cpu)));
        domains.late = late(nr_cpus as usize, &nodes.concat());
        for core in topology.iter().flat_map(|topology| topology.all_cores.values()) {
            join(&mut domains.next_in_core, core.cpus.keys().copied());
        }
        debug!("{} CPUs in {} domains; fast ones, by bits: {:#x}", nr_cpus, domains.number, domains.fast);
        domains
    }

    /// From CPUs that share a cache, by memory node. The fast ones are a domain and the slow ones another. A CPU that is in none is in
    /// the first domain.
    ///
    /// Each node's numbers begin at a multiple of a power of two that has room for those of any: the nearest domains, which are the
    /// number with its lowest bits turned over (`bpf/policy/placement.h`), are then its own node's. Numbers without CPUs lie between. Where that
    /// takes more numbers than there are, up to a power of two, as with three nodes of five, they follow each other without any between.
    pub(crate) fn of_caches(nodes: &[Vec<Vec<usize>>], is_fast: &dyn Fn(&usize) -> bool) -> Self {
        let alike = |cpus: &Vec<usize>| -> [Vec<usize>; 2] {
            let (fast, slow) = cpus.iter().copied().partition(|cpu| is_fast(cpu));
            [fast, slow]
        };
        let split = |node: &Vec<Vec<usize>>| -> Vec<Vec<usize>> {
            node.iter()
                .flat_map(alike)
                .flat_map(|cpus| cpus.chunks(MOST_CPUS).map(<[usize]>::to_vec).collect::<Vec<_>>())
                .collect()
        };
        let nodes: Vec<Vec<Vec<usize>>> = nodes.iter().map(split).collect();
        let stride = nodes.iter().map(Vec::len).max().unwrap_or(1).next_power_of_two();
        let parts: usize = nodes.iter().map(Vec::len).sum();
        let number = parts.clamp(1, MOST).next_power_of_two();
        let has_room = nodes.len() * stride <= number;
        let place = |node: usize, index: usize, nth: usize| match (has_room, parts > MOST) {
            (true, _) => node * stride + index,
            (false, true) => nth * MOST / parts,
            (false, false) => nth,
        };
        let numbered =
            nodes.iter().enumerate().flat_map(|(node, of)| of.iter().enumerate().map(move |(i, cpus)| (node, i, cpus)));
        let mut of_cpus = Box::new([0; CPUS]);
        let (mut fast, mut slow) = (0, 0);
        for (nth, (node, index, cpus)) in numbered.enumerate() {
            let domain = place(node, index, nth);
            *(if cpus.iter().all(is_fast) { &mut fast } else { &mut slow }) |= 1 << domain;
            for &cpu in cpus {
                if let (Some(entry), Ok(domain)) = (of_cpus.get_mut(cpu), u8::try_from(domain)) {
                    *entry = domain;
                }
            }
        }
        // Where one has both, as with more parts than domains, it is a slow one.
        let fast = if slow == 0 { 0 } else { fast & !slow };
        Self {
            number: u32::try_from(number).unwrap_or(1),
            of_cpus,
            late: Box::new([0; CPUS / 64]),
            fast,
            next_in_core: alone(),
        }
    }
}

/// Each CPU follows itself.
fn alone() -> Box<[u16; CPUS]> {
    Box::new(std::array::from_fn(|cpu| u16::try_from(cpu).unwrap_or(0)))
}

/// The CPUs of a core follow each other.
fn join(next_in_core: &mut [u16; CPUS], cpus: impl Iterator<Item = usize> + Clone) {
    for (cpu, next) in cpus.clone().zip(cpus.cycle().skip(1)) {
        if let (Some(entry), Ok(next)) = (next_in_core.get_mut(cpu), u16::try_from(next)) {
            *entry = next;
        }
    }
}

/// Those of the first so many CPUs that share no cache yet.
fn late(nr_cpus: usize, caches: &[Vec<usize>]) -> Box<[u64; CPUS / 64]> {
    let mut late = Box::new([0; CPUS / 64]);
    for cpu in (0..nr_cpus.min(CPUS)).filter(|cpu| !caches.iter().any(|cache| cache.contains(cpu))) {
        late[cpu / 64] |= 1 << (cpu % 64);
    }
    late
}

/// The CPUs of each last-level cache of each memory node.
fn nodes_of(topology: &Topology) -> Vec<Vec<Vec<usize>>> {
    let mut caches: Vec<_> = topology.all_llcs.values().collect();
    caches.sort_by_key(|cache| (cache.node_id, cache.id));
    let node = |of: &[_]| of.iter().map(|cache: &&Arc<Llc>| cache.all_cpus.keys().copied().collect()).collect();
    caches.chunk_by(|one, next| one.node_id == next.node_id).map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(caches: &[&[usize]]) -> Domains {
        Domains::of_caches(&[caches.iter().map(|cpus| cpus.to_vec()).collect()], &|_| true)
    }

    #[test]
    fn the_nearest_are_of_the_same_node() {
        for (nodes, each) in (1..=16).flat_map(|each| [(2, each), (4, each)]).chain([(3, 3), (3, 4)]) {
            let node = |node: usize| (node * each..(node + 1) * each).map(|cpu| vec![cpu]).collect::<Vec<_>>();
            let domains = Domains::of_caches(&(0..nodes).map(node).collect::<Vec<_>>(), &|_| true);
            let (of, all) = (|cpu: usize| u32::from(domains.of_cpus[cpu]), nodes * each);
            for home in 0..all {
                // Those that have CPUs, the nearest first.
                let mut others: Vec<usize> = (0..all).collect();
                others.sort_by_key(|cpu| of(*cpu) ^ of(home));
                assert!(others[..each].iter().all(|cpu| cpu / each == home / each), "{nodes} of {each}, from {home}");
            }
            assert_eq!(domains.number as usize, all.next_power_of_two());
        }
        // It would take 32 numbers.
        let node = |first: usize| (first..first + 5).map(|cpu| vec![cpu]).collect::<Vec<_>>();
        let domains = Domains::of_caches(&[node(0), node(5), node(10)], &|_| true);
        assert_eq!((domains.number, domains.of_cpus[14]), (16, 14));
    }

    #[test]
    fn caches_become_domains() {
        let domains = of(&[&[0, 1, 8, 9], &[2, 3, 10, 11], &[4]]);
        assert_eq!(domains.number, 4);
        assert_eq!(&domains.of_cpus[..12], &[0, 0, 1, 1, 2, 0, 0, 0, 0, 0, 1, 1]);
    }

    #[test]
    fn cpus_of_a_core_follow_each_other() {
        let mut next = alone();
        join(&mut next, [1, 5, 9].into_iter());
        join(&mut next, [2].into_iter());
        assert_eq!((next[1], next[5], next[9], next[2], next[3], next[4095]), (5, 9, 1, 2, 3, 4095));
    }

    #[test]
    fn slow_cpus_of_a_cache_are_a_domain_of_their_own() {
        let domains = Domains::of_caches(&[vec![(0..6).collect(), vec![6, 7]]], &|cpu| *cpu < 2);
        assert_eq!((domains.number, domains.fast), (4, 1));
        assert_eq!(&domains.of_cpus[..8], &[0, 0, 1, 1, 1, 1, 2, 2]);
        assert_eq!(Domains::of_caches(&[vec![vec![0, 1]]], &|_| false).fast, 0, "all are alike");
    }

    #[test]
    fn cpus_without_a_cache_come_late() {
        let found = late(70, &[(0..3).collect(), (5..69).collect()]);
        assert_eq!(found[..3], [0b11000, 1 << 5, 0]);
        assert_eq!(late(2, &[vec![0, 1]])[..], [0; CPUS / 64]);
    }

    #[test]
    fn a_domain_with_both_is_slow() {
        let caches: Vec<Vec<usize>> = (0..128).map(|cpu| vec![cpu]).collect();
        let domains = Domains::of_caches(&[caches], &|cpu| *cpu < 3);
        assert_eq!((domains.number, domains.fast), (64, 1));
    }

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(cpus_of_list("0"), Ok(vec![0]));
        assert_eq!(cpus_of_list("0-0,0"), Ok(vec![0, 0]));
        for bad in ["", "x", "0-", "0;0", "0-99999"] {
            let told = cpus_of_list(bad);
            assert!(told.as_ref().is_err_and(|allowed| allowed.contains("this machine has 0 to ")), "{bad}: {told:?}");
        }
    }

    #[test]
    fn one_cache_is_one_domain() {
        assert_eq!(of(&[&[0, 1, 2, 3]]).number, 1);
        assert_eq!(of(&[]).number, 1);
    }

    #[test]
    fn large_caches_are_split() {
        let cpus: Vec<usize> = (0..130).collect();
        let domains = of(&[&cpus]);
        assert_eq!(domains.number, 4);
        assert_eq!((domains.of_cpus[63], domains.of_cpus[64], domains.of_cpus[129]), (0, 1, 2));
    }

    #[test]
    fn neighbours_share_a_domain_when_there_are_too_many() {
        let caches: Vec<Vec<usize>> = (0..128).map(|cpu| vec![cpu]).collect();
        let domains = Domains::of_caches(&[caches], &|_| true);
        assert_eq!(domains.number, 64);
        assert_eq!((domains.of_cpus[0], domains.of_cpus[1], domains.of_cpus[2], domains.of_cpus[127]), (0, 0, 1, 63));
    }

    #[test]
    fn cpus_beyond_all_numbers_change_nothing() {
        assert_eq!(of(&[&[0, CPUS + 5]]).number, 1);
    }
}
