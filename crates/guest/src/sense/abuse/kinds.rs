//! The table of kinds, and the programs that are them.

use anyhow::{Context, Result, bail};

const TABLE: &str = include_str!("kinds.h");

/// The program of the attacker: all that is compiled into it, with the headers.
pub const ATTACK: &[(&str, &str)] = &[
    ("kinds.h", TABLE),
    ("trick.h", include_str!("c/trick.h")),
    ("card.h", include_str!("../c/card.h")),
    ("attack.c", include_str!("c/attack.c")),
    ("own.c", include_str!("c/own.c")),
    ("partners.c", include_str!("c/partners.c")),
    ("network.c", include_str!("c/network.c")),
    ("ruled.c", include_str!("c/ruled.c")),
    ("terminals.c", include_str!("c/terminals.c")),
    ("sound.c", include_str!("c/sound.c")),
    ("devices.c", include_str!("c/devices.c")),
    ("processes.c", include_str!("c/processes.c")),
    ("timing.c", include_str!("c/timing.c")),
    ("classes.c", include_str!("c/classes.c")),
    ("cgroups.c", include_str!("c/cgroups.c")),
    ("locks.c", include_str!("c/locks.c")),
    ("disguise.c", include_str!("c/disguise.c")),
    ("namespaces.c", include_str!("c/namespaces.c")),
    ("served.c", include_str!("c/served.c")),
    ("memory.c", include_str!("c/memory.c")),
];

/// A program of somebody else's, who is served.
pub const CUSTOMER: &[(&str, &str)] =
    &[("trick.h", include_str!("c/trick.h")), ("customer.c", include_str!("c/customer.c"))];

/// A kind of abuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// What it is about.
    pub family: &'static str,
    /// Its name, which no other has.
    pub name: &'static str,
    /// Processes or threads that want the CPU at once.
    pub processes: usize,
}

impl Kind {
    /// Whether it speaks to a daemon of ours.
    pub fn needs_daemon(&self) -> bool {
        ["control_socket", "control_floods", "rule_refused"].contains(&self.name)
    }
}

/// All of them in the table's order, or those of the short form.
pub fn all(is_short: bool) -> Result<Vec<Kind>> {
    let lines = TABLE.lines().filter(|line| line.starts_with("KIND(") || (!is_short && line.starts_with("MORE(")));
    lines.map(kind).collect()
}

/// `KIND(family, name, processes)`
fn kind(line: &'static str) -> Result<Kind> {
    let words = line.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    let words: Vec<&str> = words.map(|words| words.split(", ").collect()).unwrap_or_default();
    let [family, name, processes] = words[..] else { bail!("kinds.h: no kind: {line}") };
    let processes = processes.parse().with_context(|| format!("kinds.h: no number of processes: {line}"))?;
    Ok(Kind { family, name, processes })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// At least so many are promised.
    const PROMISED: usize = 40;

    #[test]
    fn each_kind_has_a_name_of_its_own_and_a_function() {
        let kinds = all(false).unwrap_or_default();
        assert!(kinds.len() >= PROMISED, "{} kinds", kinds.len());
        let names: BTreeSet<&str> = kinds.iter().map(|kind| kind.name).collect();
        assert_eq!(names.len(), kinds.len(), "two kinds have the same name");
        for Kind { family, name, .. } in kinds {
            let file = format!("{family}.c");
            let source = ATTACK.iter().find(|(of, _)| *of == file).map_or("", |(_, source)| *source);
            assert!(source.contains(&format!("\nvoid {family}_{name}(void)\n")), "{file} has no {family}_{name}()");
        }
    }
}
