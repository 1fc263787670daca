//! Parties: the root's own tasks, and those of each cgroup (`bpf/parties.bpf.h`, `bpf/others.bpf.h`). Virtual times and scales are
//! computed by `bpf/policy/party.h`. Cgroups have no children here, and hogs alone are in one, which want the CPU from their start on.
//!
//! Which parties wait in a domain is known at once, and not by marks that a look clears.

use std::ops::Range;

use appease_policy::{
    PARTY_SCALE_1, PLACEMENT_LAG_NS, PROGRESS_WEIGHT_0, party_charge, party_scale, placement_party_lag,
    progress_catch_up, progress_deadline, progress_group_weight,
};

use crate::{
    CpuId, Machine, TaskId,
    heap::Positions,
    schedulers::{
        Waker,
        others::{Displaced, Others, Rivals, SLICE_NS},
    },
};

/// Number of a party. 0: the root's, or of the one cgroup in which all tasks are.
pub(super) type PartyId = u16;

#[derive(Debug)]
struct Party {
    others: Others,
    vtime: u64,
    scale: u64,
    /// When one of its tasks was queued last.
    used_ns: Option<u64>,
}

impl Party {
    fn new(others: Others, scale: u64) -> Self {
        Self { others, vtime: 0, scale, used_ns: None }
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Parties {
    parties: Vec<Party>,
    /// By task; empty: there is only one.
    of: Vec<PartyId>,
    displaced: Displaced,
    /// All tasks are in one cgroup.
    is_cgroup: bool,
    /// Tasks of cgroups beside the root that want the CPU.
    in_cgroups: u32,
    tasks: usize,
    cpus: u32,
    domains: u32,
}

impl Parties {
    pub(super) fn new(tasks: usize, cpus: u32, domains: u32) -> Self {
        let parties = vec![Party::new(Others::new(tasks, domains), PARTY_SCALE_1.into())];
        Self {
            parties,
            of: Vec::new(),
            displaced: Displaced::default(),
            is_cgroup: false,
            in_cgroups: 0,
            tasks,
            cpus,
            domains,
        }
    }

    pub(super) fn put_in_cgroup(&mut self) {
        self.is_cgroup = true;
    }

    /// Puts some tasks into a cgroup of their own.
    pub(super) fn add_cgroup(&mut self, tasks: Range<TaskId>, cpu_weight: u32) {
        let party = self.parties.len() as PartyId;
        self.of.resize(self.tasks, 0);
        self.of[tasks.start as usize..tasks.end as usize].fill(party);
        let weight = progress_group_weight(cpu_weight);
        let scale = party_scale(PARTY_SCALE_1.into(), PROGRESS_WEIGHT_0.into(), weight);
        self.parties.push(Party::new(Others::new(self.tasks, self.domains), scale));
    }

    /// That of a task.
    pub(super) fn of(&self, task: TaskId) -> PartyId {
        self.of.get(task as usize).copied().unwrap_or(0)
    }

    fn party(&self, party: PartyId) -> &Party {
        &self.parties[usize::from(party)]
    }

    fn party_mut(&mut self, party: PartyId) -> &mut Party {
        &mut self.parties[usize::from(party)]
    }

    /// The tasks of the party of a task.
    pub(super) fn others_of(&mut self, task: TaskId) -> &mut Others {
        let party = self.of(task);
        &mut self.party_mut(party).others
    }

    pub(super) fn vtime(&self, party: PartyId) -> u64 {
        self.party(party).vtime
    }

    /// A task is there, anew.
    pub(super) fn add(&mut self, task: TaskId) {
        self.in_cgroups += u32::from(self.of(task) > 0);
        self.others_of(task).add(task);
    }

    /// A task is about to be queued in a domain, where it has arrived; the domain's clock stands there.
    pub(super) fn push(
        &mut self,
        at: &mut Positions,
        domain: u32,
        clock: u64,
        task: TaskId,
        wakes_up: bool,
        now_ns: u64,
    ) {
        let (party, lag_ns) = (self.of(task), placement_party_lag(SLICE_NS, self.cpus));
        let party = self.party_mut(party);
        // At the end of a turn it has wanted the CPU all the time, unless none of its party queued up for as long.
        let was_there =
            !wakes_up && party.used_ns.is_some_and(|used_ns| now_ns < used_ns + u64::from(PLACEMENT_LAG_NS));
        party.vtime = progress_catch_up(party.vtime, clock, if was_there { lag_ns } else { SLICE_NS });
        party.used_ns = Some(now_ns);
        party.others.push(at, domain, task);
    }

    /// A task has run that nobody waits for. Where the clock of its domain goes, if no other party waits there.
    pub(super) fn charge(&mut self, domain: u32, task: TaskId, ran_ns: u64) -> Option<u64> {
        let index = self.of(task);
        let is_only = (0..).zip(&self.parties).all(|(other, party)| other == index || party.others.len(domain) == 0);
        let party = self.party_mut(index);
        let vtime = party.vtime;
        party.vtime += party_charge(ran_ns, party.scale);
        is_only.then_some(vtime)
    }

    /// Ten times a second: so many tasks want the CPU.
    pub(super) fn weigh_root(&mut self, wanting: u32) {
        if !self.is_cgroup {
            let root_weight = PROGRESS_WEIGHT_0.saturating_mul(wanting.saturating_sub(self.in_cgroups).max(1));
            self.parties[0].scale = party_scale(PARTY_SCALE_1.into(), PROGRESS_WEIGHT_0.into(), root_weight);
        }
    }

    /// Tasks that wait in a domain.
    pub(super) fn len(&self, domain: u32) -> usize {
        self.parties.iter().map(|party| party.others.len(domain)).sum()
    }

    /// Those of one party.
    pub(super) fn waiting(&self, domain: u32, party: PartyId) -> u32 {
        self.party(party).others.len(domain) as u32
    }

    /// Those of the party of which most wait.
    pub(super) fn most_waiting(&self, domain: u32) -> u32 {
        self.parties.iter().map(|party| party.others.len(domain) as u32).max().unwrap_or(0)
    }

    /// The party that goes next in a domain.
    pub(super) fn first_in(&self, domain: u32) -> Option<PartyId> {
        let waits = (0..).zip(&self.parties).filter(|(_, party)| party.others.len(domain) > 0);
        waits.min_by_key(|(_, party)| party.vtime).map(|(index, _)| index)
    }

    /// Whether that is the root's, and no other party waits.
    pub(super) fn is_only_root(&self, domain: u32) -> bool {
        !self.is_cgroup && self.parties.iter().skip(1).all(|party| party.others.len(domain) == 0)
    }

    /// The first task of a party in a domain.
    pub(super) fn first(&self, domain: u32, party: PartyId) -> Option<TaskId> {
        self.party(party).others.first(domain)
    }

    /// Takes the first task of a party in a domain.
    pub(super) fn pop(&mut self, at: &mut Positions, domain: u32, party: PartyId) -> Option<TaskId> {
        self.party_mut(party).others.pop(at, domain)
    }

    /// Whether a task, at the end of its turn, still goes before all that wait in a domain.
    pub(super) fn is_first(&self, domain: u32, task: TaskId) -> bool {
        let own = self.of(task);
        self.first_in(domain).is_some_and(|first| {
            if first == own {
                self.party(own).others.is_first(domain, task)
            } else {
                self.vtime(own) < self.vtime(first)
            }
        })
    }

    /// Whether one that wakes up takes the CPU from `running`: tasks of two parties compare by the parties' virtual times.
    pub(super) fn displaces(
        &mut self,
        machine: &Machine,
        wakee: TaskId,
        waker: Waker,
        cpu: CpuId,
        running: TaskId,
    ) -> bool {
        let (one, other) = (self.of(wakee), self.of(running));
        let rivals = if one == other {
            self.party(one).others.rivals(machine, wakee, cpu, running)
        } else {
            let unseen_ns = machine.unseen_ns(cpu);
            let wakee_vtime = self.vtime(one);
            let running_vtime = self.vtime(other) + party_charge(unseen_ns, self.party(other).scale);
            let (waits, runs) = (&self.party(one).others, &self.party(other).others);
            Rivals {
                wakee_vtime,
                wakee_deadline: progress_deadline(wakee_vtime, waits.burst_ns(wakee), SLICE_NS),
                running_vtime,
                running_deadline: progress_deadline(running_vtime, runs.burst_ns(running), SLICE_NS),
                ran_ns: runs.ran_ns(running) + unseen_ns,
            }
        };
        self.displaced.takes(machine, waker, cpu, &rivals)
    }
}
