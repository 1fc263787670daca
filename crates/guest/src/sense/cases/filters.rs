//! Rules that count for some only: for a group, for a cgroup.

use anyhow::Result;

use super::{Case, case, files::DEVICE};
use crate::sense::{
    answer::Origin,
    cgroup::Cgroup,
    rule::Rule,
    stage::{Actor, Stage},
    wire::{End, Order},
};

/// The real group of a process that is in other ones besides, by number: none of them has a name.
const REAL: u32 = 3200;
/// Those other ones, as many as are looked through in steps.
const MORE: [u32; 5] = [3100, 3150, 3250, 3300, 3350];
/// Before all of them, between, after.
const NONE_OF_THEM: [u32; 4] = [3000, 3120, 3260, 3400];

pub fn all() -> Vec<Case> {
    vec![case("rule for a group", by_group), case("rule for a cgroup", by_cgroup)]
}

/// It reads from a device that always has something: is that an interaction by `rule`?
fn reads(stage: &mut Stage, what: &str, rule: &Rule, reader: &mut Actor, counts: bool) -> Result<()> {
    reader.opens(DEVICE)?;
    reader.does(&Order::Read(End::Channel))?;
    let origin = Origin::new("file", &rule.node(), reader.pid);
    stage.verdict(what, if counts { reader.attended(&origin, &[]) } else { reader.unattended() });
    Ok(())
}

/// A process whose groups are these, and no other.
fn in_groups(stage: &mut Stage, role: &str, more: &[u32]) -> Result<Actor> {
    let more: Vec<String> = more.iter().map(u32::to_string).collect();
    let more = if more.is_empty() { "--clear-groups".to_owned() } else { format!("--groups={}", more.join(",")) };
    stage.actor_by(&["setpriv", &format!("--regid={REAL}"), &more], role)
}

fn by_group(stage: &mut Stage) -> Result<()> {
    for group in NONE_OF_THEM {
        let rule = Rule::add(&format!("read {DEVICE} --group {group}"))?;
        let mut member = in_groups(stage, "member of others", &MORE)?;
        reads(stage, &format!("who is in other groups than {group}"), &rule, &mut member, false)?;
    }
    for group in MORE.into_iter().chain([REAL]) {
        let rule = Rule::add(&format!("read {DEVICE} --group {group}"))?;
        let mut member = in_groups(stage, "member", &MORE)?;
        reads(stage, &format!("who is in group {group}, among others"), &rule, &mut member, true)?;
        let mut alone = in_groups(stage, "member of one", &[])?;
        reads(stage, &format!("who is in group {REAL} alone, for {group}"), &rule, &mut alone, group == REAL)?;
    }
    Ok(())
}

/// What is below a cgroup is in it; what is above or beside it is not.
fn by_cgroup(stage: &mut Stage) -> Result<()> {
    let (upper, lower) = (Cgroup::new("checks")?, Cgroup::new("checks/lower")?);
    let beside = Cgroup::new("beside/lower")?;
    for (named, counted) in [("/checks", [true, true, false, false]), ("/checks/lower", [false, true, false, false])] {
        let rule = Rule::add(&format!("read {DEVICE} --cgroup {named}"))?;
        let places =
            [("checks", Some(&upper)), ("checks/lower", Some(&lower)), ("beside/lower", Some(&beside)), ("none", None)];
        for ((name, place), counts) in places.into_iter().zip(counted) {
            let mut reader = stage.actor("reader", None, None)?;
            if let Some(cgroup) = place {
                cgroup.take(reader.pid)?;
            }
            reads(stage, &format!("for {named}: who is in {name}"), &rule, &mut reader, counts)?;
        }
    }
    Ok(())
}
