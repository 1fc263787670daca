//! The rules in force.

mod load;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt, io, mem,
    net::IpAddr,
    os::fd::BorrowedFd,
    path::{Path, PathBuf},
};

use tracing::{debug, info, warn};

use super::{
    CLASSES,
    address::Inet,
    config::BuiltIn,
    hosts,
    spec::{Refusal, Spec, What},
    who::{self, Owners},
    world::{Aim, World},
};
use crate::seams::{
    Access, BpfError, Channel, Eyes, Filter, MAX_RULES, Protocol, RULES_PER_TARGET, Rule, Side, Slot, Target,
};

/// Slots of the device classes: each has the number of its class, from 1 on.
const FIRST_FREE: Slot = 1 + CLASSES.len() as Slot;
/// Channels that fit beside the device classes.
const ROOM: usize = (MAX_RULES - FIRST_FREE) as usize;
/// Each rule is looked at anew this often, in ticks of a second: also names are. What was missed heals by that.
const ROUND: u32 = 60;

/// Where a rule comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// Everybody has it.
    BuiltIn,
    /// A server of this name listens.
    Found(String),
    /// This line of the configuration file.
    File(usize),
    /// `appease channel add`.
    Command,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in"),
            Self::Found(server) => write!(f, "built-in ({server})"),
            Self::File(line) => write!(f, "line {line} of the configuration"),
            Self::Command => f.write_str("added by command"),
        }
    }
}

/// Whether a rule is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// The kernel has it.
    Armed,
    /// For what is not there yet.
    Waiting(String),
    /// It cannot be, for now.
    Refused(Refusal),
}

/// A rule.
#[derive(Debug)]
pub(crate) struct Entry {
    /// What people wrote.
    pub spec: Spec,
    /// Where it comes from.
    pub source: Source,
    /// Whether it is in force.
    pub state: State,
    owners: Owners,
    /// As the kernel has it.
    rule: Option<Rule>,
    targets: Vec<Target>,
    watch: Option<i32>,
}

impl Entry {
    /// Whether the kernel knows the rule, and counts for it.
    pub(crate) fn is_defined(&self) -> bool {
        self.rule.is_some()
    }
}

/// No two rules are alike in this.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    what: What,
    owners: Owners,
    cgroup: Option<PathBuf>,
}

impl Key {
    fn of(spec: &Spec, owners: Owners) -> Self {
        match spec.what {
            // A class has one slot, whoever is meant.
            What::Class(_) => Self { what: spec.what.clone(), owners: Owners::default(), cgroup: None },
            _ => Self { what: spec.what.clone(), owners, cgroup: spec.who.cgroup.clone() },
        }
    }
}

/// A rule that shall be in force.
struct Wanted {
    spec: Spec,
    source: Source,
    owners: Owners,
    key: Key,
}

/// All rules, and the world that they are about.
pub(crate) struct Channels {
    world: World,
    entries: BTreeMap<Slot, Entry>,
    slots: HashMap<Key, Slot>,
    /// How many rules each target leads to.
    leads: HashMap<Target, usize>,
    /// Where to look for a free slot: numbers are not given out again soon.
    next: Slot,
    built_in: Vec<BuiltIn>,
    /// Built-in ones that somebody removed.
    unwanted: HashSet<Key>,
    ticks: u32,
    ask_all: bool,
    /// Whether it was told that nobody looks up host names.
    told_absent: bool,
}

impl Channels {
    /// No rules yet, on the machine whose `/proc` and `/sys` are below `root`.
    pub(crate) fn new(root: &Path) -> Result<Self, Refusal> {
        Ok(Self {
            world: World::new(root)?,
            entries: BTreeMap::new(),
            slots: HashMap::new(),
            leads: HashMap::new(),
            next: FIRST_FREE,
            built_in: Vec::new(),
            unwanted: HashSet::new(),
            ticks: 0,
            ask_all: false,
            told_absent: false,
        })
    }

    /// The inotify instance in which uses of files count.
    pub(crate) fn uses(&self) -> BorrowedFd<'_> {
        self.world.uses()
    }

    /// The rules after a slot, which is also what people call them by.
    pub(crate) fn entries_after(&self, slot: Slot) -> impl Iterator<Item = (Slot, &Entry)> {
        self.entries.range(slot.saturating_add(1)..).map(|(slot, entry)| (*slot, entry))
    }

    /// One rule.
    pub(crate) fn entry(&self, slot: Slot) -> Option<&Entry> {
        self.entries.get(&slot)
    }

    /// Adds a rule; of its host the addresses are known.
    pub(crate) fn add(
        &mut self,
        spec: Spec,
        addresses: Option<Vec<IpAddr>>,
        eyes: &mut impl Eyes,
    ) -> Result<Slot, Refusal> {
        let owners = who::owners(&spec.who)?;
        let key = Key::of(&spec, owners);
        if let Some((slot, entry)) = self.slots.get(&key).and_then(|slot| Some((*slot, self.entries.get_mut(slot)?))) {
            // It is there because of a server that may go; now it is there to stay.
            if matches!(entry.source, Source::Found(_)) && entry.spec.access == spec.access {
                entry.source = Source::Command;
                entry.spec.weight = spec.weight;
                self.settle(slot, eyes);
                return Ok(slot);
            }
            return Err(Refusal::new(format!("{spec}: {}", is_there(slot, entry))));
        }
        if let (Some(name), Some(addresses)) = (spec.host_name(), addresses) {
            self.take_addresses(name, addresses, eyes);
        }
        let slot = self.put(Wanted { spec, source: Source::Command, owners, key }, eyes)?;
        let entry = &self.entries[&slot];
        let refusal = match (&entry.state, &entry.spec.who.cgroup) {
            (State::Refused(refusal), _) => Some(refusal.clone()),
            (State::Waiting(what), Some(_)) if what.starts_with("cgroup ") => {
                Some(Refusal::new(format!("there is no {what}: look for it with systemd-cgls, or in /proc/PID/cgroup")))
            }
            _ => None,
        };
        if let Some(refusal) = refusal {
            self.take(slot, eyes);
            // Nobody has seen this number.
            self.next = if slot >= FIRST_FREE { slot } else { self.next };
            return Err(refusal);
        }
        self.tell_needs(eyes);
        Ok(slot)
    }

    /// Removes the rule in a slot.
    pub(crate) fn remove(&mut self, slot: Slot, eyes: &mut impl Eyes) -> Result<Entry, Refusal> {
        let entry = self
            .take(slot, eyes)
            .ok_or_else(|| Refusal::new(format!("there is no channel {slot}: see \"appease channel list\"")))?;
        if matches!(entry.source, Source::BuiltIn | Source::Found(_)) {
            self.unwanted.insert(Key::of(&entry.spec, entry.owners));
        }
        self.tell_needs(eyes);
        Ok(entry)
    }

    /// The slot of the rule with these words.
    pub(crate) fn find(&self, spec: &Spec) -> Result<Slot, Refusal> {
        let key = Key::of(spec, who::owners(&spec.who)?);
        match self.slots.get(&key).and_then(|slot| Some((*slot, self.entries.get(slot)?))) {
            Some((slot, entry)) if entry.spec.access == spec.access => Ok(slot),
            Some((slot, entry)) => {
                Err(Refusal::new(format!("there is no channel {spec}: channel {slot} is {}", entry.spec)))
            }
            None => Err(Refusal::new(format!("there is no channel {spec}: see \"appease channel list\""))),
        }
    }

    /// Follows the world; to be called once a second.
    pub(crate) fn tick(&mut self, eyes: &impl Eyes) {
        let mut due = self.world.changes();
        self.ticks = self.ticks.wrapping_add(1);
        let turn = self.ticks % ROUND;
        due.extend(self.entries.keys().filter(|slot| **slot % ROUND == turn));
        for slot in due {
            self.settle(slot, eyes);
        }
        if turn == 0 {
            self.world.look_at_servers_anew();
        }
        self.find_servers(eyes);
        self.ask_all |= turn == 0;
    }

    /// Host names that are to be asked about now: those that never were, and all of them each minute.
    pub(crate) fn due_names(&mut self) -> Vec<String> {
        let names = self.entries.values().filter_map(|entry| entry.spec.host_name()).collect();
        self.world.due(names, mem::take(&mut self.ask_all))
    }

    /// Takes the answer about a host name. A name that once resolved keeps its addresses while the resolver does not answer.
    pub(crate) fn learn(&mut self, name: &str, answer: io::Result<Vec<IpAddr>>, eyes: &impl Eyes) {
        // It is the same for all names.
        let was_told = self.told_absent;
        self.told_absent = matches!(&answer, Err(error) if hosts::is_absent(error));
        match answer {
            Err(error) if self.told_absent => {
                if !was_told {
                    warn!(
                        "host {name}: {error}; until then channels by host name wait, or keep the addresses that they have"
                    );
                }
            }
            Ok(addresses) => self.take_addresses(name, addresses, eyes),
            Err(error) if self.world.knows(name) => debug!("host {name} does not resolve any more: {error}"),
            Err(error) => warn!(
                "host {name} does not resolve: {error}; its channels wait for it, and it is asked about each minute"
            ),
        }
    }

    /// Settles all rules about a host if these addresses are news.
    fn take_addresses(&mut self, name: &str, addresses: Vec<IpAddr>, eyes: &impl Eyes) {
        if !self.world.learn(name, addresses) {
            return;
        }
        let about = |entry: &Entry| entry.spec.host_name() == Some(name);
        let slots: Vec<Slot> = self.entries.iter().filter(|(_, entry)| about(entry)).map(|(slot, _)| *slot).collect();
        if !slots.is_empty() {
            info!("host {name} has a new address");
        }
        for slot in slots {
            self.settle(slot, eyes);
        }
    }

    /// Puts a rule into a slot and arms it as far as it can be.
    fn put(&mut self, wanted: Wanted, eyes: &impl Eyes) -> Result<Slot, Refusal> {
        let slot = match wanted.spec.what {
            What::Class(class) => class_slot(class),
            _ => self.free_slot().ok_or_else(|| Refusal::new(no_room()))?,
        };
        let Wanted { spec, source, owners, key } = wanted;
        let state = State::Waiting(String::new());
        self.entries.insert(slot, Entry { spec, source, state, owners, rule: None, targets: Vec::new(), watch: None });
        self.slots.insert(key, slot);
        self.settle(slot, eyes);
        Ok(slot)
    }

    /// Takes a rule out of its slot.
    fn take(&mut self, slot: Slot, eyes: &impl Eyes) -> Option<Entry> {
        let mut entry = self.entries.remove(&slot)?;
        let key = Key::of(&entry.spec, entry.owners);
        // Another may stand in its place already.
        if self.slots.get(&key) == Some(&slot) {
            self.slots.remove(&key);
        }
        self.disarm(slot, &mut entry, eyes);
        self.world.forget(slot);
        if entry.rule.take().is_some()
            && let Err(error) = eyes.forget(slot)
        {
            warn!("{error}");
        }
        Some(entry)
    }

    fn free_slot(&mut self) -> Option<Slot> {
        let around = (self.next..MAX_RULES).chain(FIRST_FREE..self.next);
        let slot = around.into_iter().find(|slot| !self.entries.contains_key(slot))?;
        self.next = if slot + 1 < MAX_RULES { slot + 1 } else { FIRST_FREE };
        Some(slot)
    }

    /// Has the kernel look where the rule is about now.
    fn settle(&mut self, slot: Slot, eyes: &impl Eyes) {
        let Some(mut entry) = self.entries.remove(&slot) else {
            return;
        };
        let state = match self.world.aim(slot, &entry.spec, eyes).and_then(|aim| self.arm(slot, &mut entry, aim, eyes))
        {
            Ok(state) => state,
            Err(refusal) => {
                self.disarm(slot, &mut entry, eyes);
                State::Refused(refusal)
            }
        };
        if state != entry.state {
            match &state {
                State::Refused(refusal) => warn!("channel {slot} ({}) is off: {refusal}", entry.spec),
                State::Armed => debug!("channel {slot} ({}) is armed", entry.spec),
                State::Waiting(what) => debug!("channel {slot} ({}) waits for {what}", entry.spec),
            }
            entry.state = state;
        }
        self.entries.insert(slot, entry);
    }

    fn arm(&mut self, slot: Slot, entry: &mut Entry, aim: Aim, eyes: &impl Eyes) -> Result<State, Refusal> {
        let refused = |error: BpfError| Refusal::new(error.to_string());
        if let Some(old) = entry.watch.filter(|old| Some(*old) != aim.watch) {
            self.world.release(old, slot);
        }
        entry.watch = aim.watch;
        for gone in entry.targets.extract_if(.., |target| !aim.targets.contains(target)) {
            unbind(&mut self.leads, slot, &gone, eyes);
        }
        if let Some(what) = aim.waits_for {
            return Ok(State::Waiting(what));
        }
        let filter = Filter { uid: entry.owners.uid, gid: entry.owners.gid, cgroup: aim.cgroup };
        let rule = Rule { access: entry.spec.access, filter, weight: entry.spec.weight.hundredths() };
        if let Some(old) = entry.rule.filter(|old| *old != rule && Rule { weight: rule.weight, ..*old } == rule) {
            eyes.weigh(slot, rule.weight).map_err(refused)?;
            entry.rule = Some(Rule { weight: rule.weight, ..old });
        }
        if entry.rule != Some(rule) {
            for target in entry.targets.drain(..) {
                unbind(&mut self.leads, slot, &target, eyes);
            }
            if entry.rule.take().is_some() {
                eyes.forget(slot).map_err(refused)?;
            }
            eyes.define(slot, &rule).map_err(refused)?;
            entry.rule = Some(rule);
        }
        for target in aim.targets {
            if entry.targets.contains(&target) {
                continue;
            }
            let count = self.leads.entry(target.clone()).or_insert(0);
            if *count >= RULES_PER_TARGET {
                return Err(Refusal::new(format!(
                    "{}: {RULES_PER_TARGET} channels are about the same thing already: remove one of them",
                    entry.spec.what
                )));
            }
            eyes.bind(slot, &target).map_err(refused)?;
            *count += 1;
            entry.targets.push(target);
        }
        Ok(State::Armed)
    }

    fn disarm(&mut self, slot: Slot, entry: &mut Entry, eyes: &impl Eyes) {
        for target in entry.targets.drain(..) {
            unbind(&mut self.leads, slot, &target, eyes);
        }
        if let Some(watch) = entry.watch.take() {
            self.world.release(watch, slot);
        }
    }

    /// Brings the rules of servers up to date.
    fn find_servers(&mut self, eyes: &impl Eyes) {
        let Some(servers) = self.world.servers(eyes) else {
            return;
        };
        let wanted: Vec<Wanted> = servers
            .into_iter()
            .filter(|server| self.built_in.contains(&server.kind))
            .map(|server| {
                let (spec, owners) = (accept(server.port), Owners::default());
                Wanted { key: Key::of(&spec, owners), spec, source: Source::Found(server.comm), owners }
            })
            .filter(|one| !self.unwanted.contains(&one.key))
            .collect();
        let is_gone = |(_, entry): &(&Slot, &Entry)| {
            matches!(entry.source, Source::Found(_)) && !wanted.iter().any(|one| one.spec == entry.spec)
        };
        let gone: Vec<Slot> = self.entries.iter().filter(is_gone).map(|(slot, _)| *slot).collect();
        for slot in gone {
            self.take(slot, eyes);
        }
        for one in wanted {
            match self.slots.get(&one.key).copied() {
                None => {
                    if let Err(refusal) = self.put(one, eyes) {
                        warn!("{refusal}");
                        return;
                    }
                }
                Some(slot) => {
                    let entry = self.entries.get_mut(&slot);
                    if let Some(entry) = entry.filter(|entry| matches!(entry.source, Source::Found(_))) {
                        entry.source = one.source;
                    }
                }
            }
        }
    }

    /// Has the hooks attached that the rules need now, and others detached: what was asked for holds from the answer on.
    fn tell_needs(&mut self, eyes: &mut impl Eyes) {
        let writes = self.entries.values().any(|entry| entry.spec.writes_to_sockets());
        eyes.set_write_rules(writes);
        eyes.attach_new_modules();
    }
}

fn unbind(leads: &mut HashMap<Target, usize>, slot: Slot, target: &Target, eyes: &impl Eyes) {
    if let Some(count) = leads.get_mut(target) {
        *count -= 1;
        if *count == 0 {
            leads.remove(target);
        }
    }
    if let Err(error) = eyes.unbind(slot, target) {
        warn!("{error}");
    }
}

fn is_there(slot: Slot, entry: &Entry) -> String {
    let Entry { spec, source, .. } = entry;
    format!("channel {slot} ({spec}, {source}) has that: remove it first (appease channel remove {slot})")
}

fn no_room() -> String {
    format!("there is room for {ROOM} channels beside the device classes: remove some first")
}

fn class_slot(class: Channel) -> Slot {
    (1..).zip(CLASSES).find(|(_, one)| *one == class).map_or(FIRST_FREE, |(slot, _)| slot)
}

fn accept(port: u16) -> Spec {
    let inet = Inet { protocol: Protocol::Tcp, host: None, port: Some(port) };
    Spec::of(Access { read: true, write: false }, What::Inet(Side::Accept, inet))
}
