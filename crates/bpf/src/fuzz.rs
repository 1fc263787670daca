//! Fuzz targets: what the kernel, firmware and administrators say of a machine.

use std::collections::BTreeSet;

use appease_fuzz::{Taken, target};

use crate::{
    domains::{CPUS, Domains, cpus_of_list},
    features::{self, btf},
    scheduler::name_of,
};

#[test]
fn type_information() {
    target!("btf", types);
}

#[test]
fn lists_of_cpus() {
    target!("cpu-list", list);
}

#[test]
fn caches_of_machines() {
    target!("domains", domains);
}

#[test]
fn words_on_the_kernel() {
    target!("features", words);
}

/// Names are found by both ways alike.
fn types(input: &[u8]) {
    let all = btf::functions(input, |_| true);
    let with = btf::functions_with_parameter(input, |_| true, "aux");
    if let (Ok(all), Ok(with)) = (all, with) {
        assert!(with.iter().all(|name| all.contains(name)) && all.is_sorted() && with.is_sorted());
    }
}

/// Each CPU is there; a list that is written so is read back.
fn list(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(cpus) = cpus_of_list(text) else { return };
    assert!(!cpus.is_empty() && cpus.iter().all(|cpu| *cpu < *scx_utils::NR_CPU_IDS));
    let written = cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    assert_eq!(cpus_of_list(&written), Ok(cpus));
}

/// Each CPU has a domain that is there, and a fast domain has fast CPUs alone.
fn domains(input: &[u8]) {
    let mut taken = Taken::from(input);
    let fast_below = taken.number(2) as usize;
    let mut nodes = vec![Vec::new()];
    while !taken.rest().is_empty() {
        let (kind, first, number) = (taken.byte(), taken.number(2) as usize, usize::from(taken.byte()));
        if kind % 4 == 0 {
            nodes.push(Vec::new());
        }
        if let Some(node) = nodes.last_mut() {
            node.push((first..first + number).collect::<Vec<usize>>());
        }
    }
    let found = Domains::of_caches(&nodes, &|cpu| *cpu < fast_below);
    assert!(found.number.is_power_of_two() && found.number <= 64);
    assert!(found.of_cpus.iter().all(|domain| u32::from(*domain) < found.number));
    let all: Vec<usize> = nodes.concat().concat();
    let seen: BTreeSet<usize> = all.iter().copied().filter(|cpu| *cpu < CPUS).collect();
    let is_once = seen.len() == all.len();
    for cpu in seen.into_iter().filter(|_| is_once) {
        let is_fast = found.fast >> found.of_cpus[cpu] & 1 == 1;
        assert!(!is_fast || cpu < fast_below, "CPU {cpu} is slow");
    }
}

/// What the kernel says of privileges and lockdown; and a command name, whatever bytes it has.
fn words(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let caps = features::capabilities(&text);
    assert!(!features::may_load(&text) || caps != 0);
    let _ = features::parse_lockdown(&text);
    assert!(!name_of(input).contains('\0'));
}
