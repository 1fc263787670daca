//! Which CPUs share a cache, as the scheduler is told: `bpf/domains.bpf.h`.

use scx_utils::Topology;
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
}

impl Domains {
    /// Those of this machine. Where the kernel does not tell, all CPUs are in one, as far as one has room.
    pub(crate) fn of_machine(nr_cpus: u32) -> Self {
        let all = || vec![(0..nr_cpus as usize).collect()];
        if nr_cpus == 1 {
            return Self::of_caches(&all());
        }
        let caches = match Topology::new() {
            Ok(topology) => caches_of(&topology),
            Err(error) => {
                warn!("the kernel does not tell which CPUs share a cache: {error:#}");
                Vec::new()
            }
        };
        let domains = Self::of_caches(&if caches.is_empty() { all() } else { caches });
        debug!("{} CPUs in {} domains", nr_cpus, domains.number);
        domains
    }

    /// From CPUs that share a cache, near caches side by side. A CPU that is in none, because it is off, is in the first domain.
    fn of_caches(caches: &[Vec<usize>]) -> Self {
        let parts: Vec<&[usize]> = caches.iter().flat_map(|cpus| cpus.chunks(MOST_CPUS)).collect();
        let mut of_cpus = Box::new([0; CPUS]);
        for (index, cpus) in parts.iter().enumerate() {
            let domain = if parts.len() > MOST { index * MOST / parts.len() } else { index };
            for &cpu in *cpus {
                if let (Some(entry), Ok(domain)) = (of_cpus.get_mut(cpu), u8::try_from(domain)) {
                    *entry = domain;
                }
            }
        }
        let number = parts.len().clamp(1, MOST).next_power_of_two();
        Self { number: u32::try_from(number).unwrap_or(1), of_cpus }
    }
}

/// The CPUs of each last-level cache, by memory node.
fn caches_of(topology: &Topology) -> Vec<Vec<usize>> {
    let mut caches: Vec<_> = topology.all_llcs.values().collect();
    caches.sort_by_key(|cache| (cache.node_id, cache.id));
    caches.into_iter().map(|cache| cache.all_cpus.keys().copied().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(caches: &[&[usize]]) -> Domains {
        Domains::of_caches(&caches.iter().map(|cpus| cpus.to_vec()).collect::<Vec<_>>())
    }

    #[test]
    fn caches_become_domains() {
        let domains = of(&[&[0, 1, 8, 9], &[2, 3, 10, 11], &[4]]);
        assert_eq!(domains.number, 4);
        assert_eq!(&domains.of_cpus[..12], &[0, 0, 1, 1, 2, 0, 0, 0, 0, 0, 1, 1]);
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
        let domains = Domains::of_caches(&caches);
        assert_eq!(domains.number, 64);
        assert_eq!((domains.of_cpus[0], domains.of_cpus[1], domains.of_cpus[2], domains.of_cpus[127]), (0, 0, 1, 63));
    }

    #[test]
    fn cpus_beyond_all_numbers_change_nothing() {
        assert_eq!(of(&[&[0, CPUS + 5]]).number, 1);
    }
}
