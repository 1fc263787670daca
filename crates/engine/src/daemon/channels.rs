//! The daemon's channels: what clients ask for, and what comes by itself.

use std::path::Path;

use tracing::{info, warn};

use super::{Daemon, failed};
use crate::{
    channel::{Channels, Entry, Refusal, Source, Spec, State, config, hosts},
    config::{CONFIG_FILE, Config},
    control::{Answer, ChannelPage, ChannelRow, ChannelWords, ControlError, Handler, Peer, Reloaded},
    customer::Weights,
    seams::{Begun, Eyes, Platform, Slot},
};

/// Rows of one answer. An answer is written anew for each 256 bytes by which its buffer grows, so a long one takes for ever.
const PAGE: usize = 100;

/// Whether a configuration makes sense on this machine: its users, for one, are there.
pub(super) fn check(config: &Config, file: &config::File) -> Result<(), Refusal> {
    Weights::new(&config.root).plan(&file.customers, file_of(config))?;
    Channels::new(&config.root)?.check(file, file_of(config))
}

/// Puts the weights of a configuration in force, its channels and the built-in ones.
pub(super) fn start(config: &Config, file: config::File, eyes: &mut impl Eyes) -> Result<(Channels, Weights), Refusal> {
    let mut weights = Weights::new(&config.root);
    let plan = weights.plan(&file.customers, file_of(config))?;
    weights.put(plan, eyes)?;
    let mut channels = Channels::new(&config.root)?;
    if let Err(error) = eyes.adopt_watches(channels.uses()) {
        warn!("{error}; files and FIFOs are not seen as channels");
    }
    channels.load(file, file_of(config), eyes)?;
    Ok((channels, weights))
}

fn file_of(config: &Config) -> &Path {
    config.file.as_deref().unwrap_or(Path::new(CONFIG_FILE))
}

fn refused(refusal: Refusal) -> ControlError {
    ControlError::Refused { reason: refusal.to_string() }
}

impl<P: Platform> Daemon<P> {
    /// Follows nodes, servers and host names; once a second.
    pub(super) fn follow_channels(&self) {
        let mut channels = self.channels.borrow_mut();
        channels.tick(&self.live.borrow().eyes);
        let mut passing = self.passing.borrow_mut();
        if passing.is_free() {
            passing.ask(channels.due_names());
        }
    }

    /// Takes an answer about a host name.
    pub(super) fn learn(&self, (name, answer): hosts::Answer) {
        self.channels.borrow_mut().learn(&name, answer, &self.live.borrow().eyes);
    }

    /// Reads the configuration file anew; a wrong one changes nothing.
    pub(super) fn reload_file(&self) -> Result<Reloaded, Refusal> {
        match config::read(self.config.file.as_deref()).and_then(|file| self.load(file)) {
            Ok(changes) => {
                info!(
                    "configuration read anew: {} channels added, {} removed; {} of them and {} customers have another weight",
                    changes.added, changes.removed, changes.weighed, changes.customers
                );
                Ok(changes)
            }
            Err(refusal) => {
                warn!("{refusal}; the old configuration stays");
                Err(refusal)
            }
        }
    }

    /// Puts a configuration in place of the one before, or changes nothing.
    fn load(&self, file: config::File) -> Result<Reloaded, Refusal> {
        let path = file_of(&self.config);
        file.requests.is_still(&self.requests, path)?;
        let eyes = &mut self.live.borrow_mut().eyes;
        let mut weights = self.weights.borrow_mut();
        let plan = weights.plan(&file.customers, path)?;
        let (customers, before) = weights.put(plan, eyes)?;
        match self.channels.borrow_mut().load(file, path, eyes) {
            Ok(changes) => Ok(Reloaded {
                added: changes.added as u64,
                removed: changes.removed as u64,
                weighed: changes.weighed as u64,
                customers: customers as u64,
            }),
            Err(refusal) => {
                // There was room for them a moment ago.
                let _ = weights.put(before, eyes);
                Err(refusal)
            }
        }
    }

    pub(super) fn page(&self, peer: Peer, after: Slot) -> Result<ChannelPage, ControlError> {
        let channels = self.channels.borrow();
        let mut rest = channels.entries_after(after);
        let rows = rest.by_ref().take(PAGE).map(|(slot, entry)| self.row(slot, entry, peer));
        let rows = rows.collect::<Result<_, _>>()?;
        Ok(ChannelPage { channels: rows, restricted: peer.uid != 0, more: rest.next().is_some() })
    }

    pub(super) fn add(&self, peer: Peer, words: ChannelWords) -> Answer<'_, ChannelRow> {
        Box::pin(async move {
            peer.must_be_root()?;
            let policy = self.config.sense.policy;
            if !policy.watches() {
                let reason =
                    format!("policy {policy} watches no channel: run the daemon with another policy, say appease");
                return Err(ControlError::Refused { reason });
            }
            let spec = Spec::parse(&words).map_err(refused)?;
            let addresses = match spec.host_name() {
                Some(name) => {
                    let lookup = self.platform.lookup(&self.config);
                    Some(hosts::resolve(lookup, name.to_owned()).await.map_err(refused)?)
                }
                None => None,
            };
            let mut channels = self.channels.borrow_mut();
            let added = channels.add(spec, addresses, &mut self.live.borrow_mut().eyes);
            let slot = added.map_err(refused)?;
            let entry =
                channels.entry(slot).ok_or_else(|| ControlError::Failed { reason: "it is gone again".into() })?;
            info!("channel {slot} ({}) added by user {}", entry.spec, peer.uid);
            self.row(slot, entry, peer)
        })
    }

    pub(super) fn remove(&self, peer: Peer, slot: Slot) -> Result<ChannelRow, ControlError> {
        peer.must_be_root()?;
        let mut channels = self.channels.borrow_mut();
        // Its hits go with it.
        let row = channels.entry(slot).map(|entry| self.row(slot, entry, peer)).transpose()?;
        let entry = channels.remove(slot, &mut self.live.borrow_mut().eyes).map_err(refused)?;
        info!("channel {slot} ({}) removed by user {}", entry.spec, peer.uid);
        row.ok_or_else(|| ControlError::Failed { reason: "it was not there".into() })
    }

    pub(super) fn remove_words(&self, peer: Peer, words: &ChannelWords) -> Result<ChannelRow, ControlError> {
        peer.must_be_root()?;
        let spec = Spec::parse(words).map_err(refused)?;
        let slot = self.channels.borrow().find(&spec).map_err(refused)?;
        self.remove(peer, slot)
    }

    /// One of a channel's handlers, if its number is not another's by now.
    fn handler(&self, begun: Begun) -> Option<Handler> {
        let comm = self.names.comm_of(begun.pid, begun.start_ns)?;
        Some(Handler { pid: begun.pid, comm })
    }

    fn row(&self, slot: Slot, entry: &Entry, peer: Peer) -> Result<ChannelRow, ControlError> {
        let hits = match entry.is_defined() && peer.uid == 0 {
            true => self.live.borrow().eyes.hits(slot).map_err(failed)?,
            false => Default::default(),
        };
        let last_hit_ago_ns = hits.last_ns.map(|last| self.platform.now_ns().saturating_sub(last));
        let attention = self.config.sense.attention.as_nanos();
        let (state, reason) = match &entry.state {
            State::Armed if last_hit_ago_ns.is_some_and(|ago| u128::from(ago) < attention) => ("active", None),
            State::Armed => ("armed", None),
            State::Waiting(what) => ("waiting", Some(what.clone())),
            State::Refused(refusal) => ("off", Some(refusal.to_string())),
        };
        let who = &entry.spec.who;
        Ok(ChannelRow {
            id: slot,
            access: entry.spec.access_name().into(),
            what: entry.spec.what.to_string(),
            user: who.user.clone(),
            group: who.group.clone(),
            cgroup: who.cgroup.as_ref().map(|cgroup| cgroup.display().to_string()),
            weight: entry.spec.weight.number(),
            state: state.into(),
            reason,
            hits: (peer.uid == 0).then_some(hits.count),
            last_hit_ago_ns,
            handlers: hits.handlers.iter().filter_map(|one| self.handler(*one)).collect(),
            source: match &entry.source {
                Source::File(line) => format!("{}:{line}", file_of(&self.config).display()),
                source => source.to_string(),
            },
        })
    }
}
