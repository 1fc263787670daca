//! A configuration takes the place of the one before: as a whole, or not at all.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use super::{
    super::{
        CLASSES,
        config::{self, BuiltIn, File},
        spec::{Refusal, Spec, What, class_access},
        who::{self, Owners},
    },
    Channels, Entry, FIRST_FREE, Key, ROOM, Source, State, Wanted, accept, is_there, no_room,
};
use crate::{
    customer::Weight,
    seams::{Eyes, Slot},
};

/// Where ssh listens.
const SSH_PORT: u16 = 22;

/// What a new configuration changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Changes {
    pub added: usize,
    pub removed: usize,
    /// Have another weight.
    pub weighed: usize,
}

impl Channels {
    /// Puts a configuration in place of the one before, or changes nothing. `path` is for messages. Rules that both have keep
    /// their hits; those that were added by command stay.
    pub(crate) fn load(&mut self, file: File, path: &Path, eyes: &mut impl Eyes) -> Result<Changes, Refusal> {
        let wanted = self.wanted(&file, path)?;
        let by_key: HashMap<&Key, &Wanted> = wanted.iter().map(|one| (&one.key, one)).collect();
        let stays = |key: &Key, entry: &Entry| match (&entry.source, by_key.get(key)) {
            (Source::Command, _) => true,
            (_, Some(one)) => one.spec.access == entry.spec.access,
            (Source::Found(_), None) => true,
            (Source::BuiltIn | Source::File(_), None) => false,
        };
        let gone: HashSet<Slot> =
            self.slots.iter().filter(|(key, slot)| !stays(key, &self.entries[slot])).map(|(_, slot)| *slot).collect();
        let others = self.entries.keys().filter(|slot| **slot >= FIRST_FREE && !gone.contains(slot)).count();
        let new = |one: &&Wanted| self.slots.get(&one.key).is_none_or(|slot| gone.contains(slot));
        let added = wanted.iter().filter(new).count();
        if others + added > ROOM + CLASSES.len() {
            return Err(Refusal::new(format!("{}: {} channels: {}", path.display(), others + added, no_room())));
        }

        // Where both fit, the old rules go only when the new ones are in: should those be refused, the old have their hits.
        let both_fit = self.entries.len() + added <= ROOM;
        let mut removed = Vec::new();
        for slot in &gone {
            if both_fit {
                self.stand_aside(*slot, eyes);
            } else {
                removed.extend(self.take(*slot, eyes).map(|entry| (*slot, entry)));
            }
        }
        let (mut put, mut kept) = (Vec::new(), Vec::new());
        for one in wanted {
            if let Some(slot) = self.slots.get(&one.key) {
                // A class that is there by command stays as that has it.
                if self.entries[slot].source != Source::Command {
                    kept.push((*slot, one.source, one.spec.weight));
                }
                continue;
            }
            let source = one.source.clone();
            let refused = self.put(one, eyes).and_then(|slot| {
                put.push(slot);
                match (&self.entries[&slot].state, source) {
                    (State::Refused(refusal), Source::File(line)) => Err(config::at(path, line, refusal)),
                    _ => Ok(()),
                }
            });
            if let Err(refusal) = refused {
                self.undo(put, gone, removed, eyes);
                return Err(refusal);
            }
        }
        let weights = kept.iter().map(|(slot, _, weight)| (*slot, *weight)).collect();
        let weighed = match self.weigh_all(weights, eyes) {
            Ok(weighed) => weighed,
            Err(refusal) => {
                self.undo(put, gone, removed, eyes);
                return Err(refusal);
            }
        };
        for (slot, source, _) in kept {
            if let Some(entry) = self.entries.get_mut(&slot) {
                entry.source = source;
            }
        }
        if both_fit {
            for slot in &gone {
                self.take(*slot, eyes);
            }
        }
        self.built_in = file.built_in;
        self.unwanted.clear();
        self.world.look_at_servers_anew();
        self.find_servers(eyes);
        self.tell_needs(eyes);
        Ok(Changes { added: put.len(), removed: gone.len(), weighed })
    }

    /// Whether a configuration makes sense by itself, `path` being for messages.
    pub(crate) fn check(&self, file: &File, path: &Path) -> Result<(), Refusal> {
        self.wanted(file, path).map(drop)
    }

    /// What the file and the built-in channels come to; refuses what is there twice.
    fn wanted(&self, file: &File, path: &Path) -> Result<Vec<Wanted>, Refusal> {
        let mut wanted: Vec<Wanted> = file
            .built_in
            .iter()
            .filter_map(|one| built_in(*one))
            .map(|spec| {
                let owners = Owners::default();
                Wanted { key: Key::of(&spec, owners), spec, source: Source::BuiltIn, owners }
            })
            .collect();
        let mut seen: HashMap<Key, Source> = wanted.iter().map(|one| (one.key.clone(), Source::BuiltIn)).collect();
        for (line, spec) in &file.channels {
            let refused = |refusal: &Refusal| config::at(path, *line, refusal);
            let owners = who::owners(&spec.who).map_err(|refusal| refused(&refusal))?;
            let key = Key::of(spec, owners);
            let twin = match seen.get(&key) {
                Some(Source::File(other)) => Some(format!("line {other} has it already: remove one of them")),
                Some(_) => Some("it is built in: remove the line, or take it out of \"built-in\"".into()),
                None => self.slots.get(&key).and_then(|slot| {
                    let entry = self.entries.get(slot).filter(|entry| entry.source == Source::Command)?;
                    Some(is_there(*slot, entry))
                }),
            };
            if let Some(twin) = twin {
                return Err(refused(&Refusal::new(format!("{spec}: {twin}"))));
            }
            seen.insert(key.clone(), Source::File(*line));
            wanted.push(Wanted { spec: spec.clone(), source: Source::File(*line), owners, key });
        }
        Ok(wanted)
    }

    /// Gives rules their weights, or none of them. How many have another one now.
    fn weigh_all(&mut self, weights: Vec<(Slot, Weight)>, eyes: &impl Eyes) -> Result<usize, Refusal> {
        let mut before = Vec::new();
        for (slot, weight) in weights {
            match self.weigh(slot, weight, eyes) {
                Ok(old) if old == weight => {}
                Ok(old) => before.push((slot, old)),
                Err(refusal) => {
                    for (slot, old) in before {
                        // What it took a moment ago it takes again.
                        let _ = self.weigh(slot, old, eyes);
                    }
                    return Err(refusal);
                }
            }
        }
        Ok(before.len())
    }

    /// Gives a rule its weight; returns the one before.
    fn weigh(&mut self, slot: Slot, weight: Weight, eyes: &impl Eyes) -> Result<Weight, Refusal> {
        let Some(entry) = self.entries.get_mut(&slot).filter(|entry| entry.spec.weight != weight) else {
            return Ok(weight);
        };
        if let Some(rule) = &mut entry.rule {
            let hundredths = weight.hundredths();
            eyes.weigh(slot, hundredths).map_err(|error| Refusal::new(format!("{}: {error}", entry.spec)))?;
            rule.weight = hundredths;
        }
        Ok(std::mem::replace(&mut entry.spec.weight, weight))
    }

    /// Takes a rule out of force, but not out of its slot.
    fn stand_aside(&mut self, slot: Slot, eyes: &impl Eyes) {
        if let Some(mut entry) = self.entries.remove(&slot) {
            self.slots.remove(&Key::of(&entry.spec, entry.owners));
            self.disarm(slot, &mut entry, eyes);
            self.entries.insert(slot, entry);
        }
    }

    /// Back to what was there before.
    fn undo(&mut self, put: Vec<Slot>, gone: HashSet<Slot>, removed: Vec<(Slot, Entry)>, eyes: &impl Eyes) {
        for slot in put {
            self.take(slot, eyes);
        }
        self.entries.extend(removed);
        for slot in gone {
            if let Some(entry) = self.entries.get(&slot) {
                self.slots.insert(Key::of(&entry.spec, entry.owners), slot);
                self.settle(slot, eyes);
            }
        }
    }
}

/// The rule that a built-in channel is from the start; servers are found later.
fn built_in(one: BuiltIn) -> Option<Spec> {
    match one {
        BuiltIn::Class(class) => Some(Spec::of(class_access(class), What::Class(class))),
        BuiltIn::Ssh => Some(accept(SSH_PORT)),
        BuiltIn::RemoteDesktop => None,
    }
}
