//! What people write, and what a resolver says.

use std::{net::IpAddr, sync::Arc};

use appease_fuzz::{Taken, is_printable};

use crate::{
    channel::{Refusal, Spec, config, hosts},
    control::ChannelWords,
    seams::Lookup,
};

/// Longest refusal.
const REFUSAL_MAX: usize = 1100;

/// It can be shown as it is.
fn check(refusal: &Refusal) {
    let text = refusal.to_string();
    assert!(!text.is_empty() && text.chars().count() <= REFUSAL_MAX, "{} characters", text.len());
    assert!(is_printable(&text) && !text.contains('\n'), "{text:?}");
}

/// A rule as it is shown is the same rule.
fn is_read_back(spec: &Spec) {
    let shown = spec.what.to_string();
    let what = match shown.split_once(' ') {
        Some((side @ ("accept" | "connect"), address)) => vec![side.to_owned(), address.to_owned()],
        _ => vec![shown],
    };
    let words = ChannelWords {
        access: spec.access_name().into(),
        what,
        user: spec.who.user.clone(),
        group: spec.who.group.clone(),
        cgroup: spec.who.cgroup.as_ref().map(|path| path.display().to_string()),
        weight: Some(spec.weight.to_string()),
    };
    assert_eq!(Spec::parse(&words).as_ref(), Ok(spec), "{words:?}");
}

/// A configuration file: what is wrong is in one of its lines.
pub(super) fn config(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match config::parse(text) {
        Ok(file) => {
            let lines = text.split('\n').count();
            file.channels.iter().for_each(|(line, spec)| {
                assert!((1..=lines).contains(line), "line {line} of {lines}");
                is_read_back(spec);
            });
            file.customers.iter().for_each(|(line, rule)| {
                assert!((1..=lines).contains(line), "line {line} of {lines}");
                assert!(is_printable(&rule.words.to_string()));
            });
            assert!(file.requests.alpha_pm < 500);
        }
        Err(wrong) => {
            assert!((1..=text.split('\n').count()).contains(&wrong.line), "line {}", wrong.line);
            check(&wrong.refusal);
        }
    }
}

/// A channel's words, each in a line: access, user, group, cgroup, weight, and then what it is.
pub(super) fn channel(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let mut lines = text.split('\n').map(str::to_owned);
    let access = lines.next().unwrap_or_default();
    let mut word = || lines.next().filter(|word| word != "-");
    let (user, group, cgroup, weight) = (word(), word(), word(), word());
    match Spec::parse(&ChannelWords { access, what: lines.collect(), user, group, cgroup, weight }) {
        Ok(spec) => is_read_back(&spec),
        Err(refusal) => check(&refusal),
    }
}

/// Addresses of a name: in order, each once, without disguise, and not too many.
pub(super) fn resolver(input: &[u8]) {
    const MOST: usize = 64;
    let mut taken = Taken::from(input);
    let mut answer: Vec<IpAddr> = Vec::new();
    while !taken.rest().is_empty() {
        let word = |taken: &mut Taken| u32::try_from(taken.number(4)).unwrap_or(0);
        answer.push(match taken.byte() % 3 {
            0 => word(&mut taken).to_be_bytes().into(),
            1 => std::net::Ipv4Addr::from(word(&mut taken)).to_ipv6_mapped().into(),
            _ => (u128::from(taken.number(8)) << 64 | u128::from(taken.number(8))).to_be_bytes().into(),
        });
    }
    let given = answer.clone();
    let lookup: Lookup = Arc::new(move |_| Ok(answer.clone()));
    let Ok(found) = hosts::ask(&lookup, "a.example") else {
        // The one that stands for any is none.
        assert!(given.iter().all(|address| address.to_canonical().is_unspecified()), "an address is one");
        return;
    };
    assert!((1..=MOST).contains(&found.len()) && found.is_sorted());
    assert!(found.windows(2).all(|pair| pair[0] != pair[1]));
    assert!(found.iter().all(|address| *address == address.to_canonical()));
    assert!(found.iter().all(|address| given.iter().any(|one| one.to_canonical() == *address)));
}
