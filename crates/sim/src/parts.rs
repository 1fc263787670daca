//! From a scenario to the tasks, customers and figures of a simulation.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
};

use rand_pcg::Pcg32;

use crate::{
    Arrivals, CustomerFigures, MS, NONE, Nice, Scenario, Socket, Task, TaskFigures, TaskId, Weight,
    distribution::{Sampler, stream},
    machine::{Calls, Customer, Group, Kind, Pace, State, Target},
    outcome::Times,
    unhappiness::Ledger,
};

/// What a scenario's groups become.
#[derive(Default)]
pub(crate) struct Parts {
    seed: u64,
    cpus: u32,
    pub(crate) ledger: Ledger,
    pub(crate) tasks: Vec<Task>,
    pub(crate) groups: Vec<Group>,
    pub(crate) customers: Vec<Customer>,
    pub(crate) paces: Vec<Pace>,
    pub(crate) customer_figures: Vec<CustomerFigures>,
    pub(crate) task_figures: Vec<TaskFigures>,
    /// Random streams given away.
    streams: u64,
}

impl Parts {
    pub(crate) fn of(scenario: &Scenario, seed: u64) -> Self {
        let (cpus, ledger) = (*scenario.cpus.get_ref(), Ledger::new(scenario.alpha));
        let mut parts = Self { seed, cpus, ledger, ..Self::default() };
        parts.add_all(scenario);
        parts
    }

    fn add_all(&mut self, scenario: &Scenario) {
        let servers: BTreeMap<&str, u32> =
            scenario.servers.iter().zip(0..).map(|(server, group)| (server.id.get_ref().as_str(), group)).collect();
        // Servers first, so that their places are known.
        for server in &scenario.servers {
            let calls = server.calls.iter().map(|call| Calls {
                to: call.to.iter().filter_map(|to| servers.get(to.get_ref().as_str()).copied()).collect(),
                then: call.then_ms.into(),
            });
            let kind = Kind::Server { work: server.work_ms.into(), calls: calls.collect(), shared: true };
            self.add_tasks(server.id.get_ref(), *server.number.get_ref(), server.nice, 0, kind);
            if let Some(group) = self.groups.last_mut() {
                (group.socket, group.terminal) = (server.socket, server.terminal);
            }
        }
        for hog in &scenario.hogs {
            self.add_tasks(hog.id.get_ref(), *hog.number.get_ref(), hog.nice, hog.start_ms * MS, Kind::Hog);
        }
        for tasks in &scenario.interactives {
            let (work, pause) = (tasks.work_ms.into(), tasks.pause_ms.into());
            let kind = if tasks.attended {
                Kind::Server { work, calls: Vec::new(), shared: false }
            } else {
                Kind::OnOff { work, pause, new_process: tasks.new_process }
            };
            let first = self.tasks.len() as TaskId;
            self.add_tasks(tasks.id.get_ref(), *tasks.number.get_ref(), tasks.nice, 0, kind);
            if tasks.attended {
                let figures = self.add_figures(tasks.id.get_ref());
                for task in first..self.tasks.len() as TaskId {
                    let target = Target::Task(task);
                    self.add_customer(figures, target, tasks.weight, Weight::ONE, Socket::Unix, Pace::Closed(pause));
                }
            }
        }
        for group in &scenario.customers {
            let target = Target::Group(servers.get(group.to.get_ref().as_str()).copied().unwrap_or(0));
            let pace = match &group.arrivals {
                Arrivals::ClosedMs(times) => Pace::Closed(Sampler::from(*times)),
                Arrivals::OpenMs(times) => Pace::Open(Sampler::from(*times)),
                Arrivals::AtMs(times) => {
                    let mut times: Vec<u64> = times.iter().map(|ms| (ms * MS as f64) as u64).collect();
                    times.sort_unstable_by_key(|&time| Reverse(time));
                    Pace::At(times)
                }
            };
            let figures = self.add_figures(group.id.get_ref());
            for _ in 0..*group.number.get_ref() {
                self.add_customer(figures, target, group.weight, group.request_weight, group.socket, pace.clone());
            }
        }
    }

    fn next_stream(&mut self) -> Pcg32 {
        self.streams += 1;
        stream(self.seed, self.streams)
    }

    fn add_tasks(&mut self, id: &str, number: u64, nice: Nice, start_ns: u64, kind: Kind) {
        let (group, first) = (self.groups.len() as u32, self.tasks.len() as TaskId);
        for task in (first..).take(number as usize) {
            let rng = self.next_stream();
            self.tasks.push(Task {
                group,
                cpu: task % self.cpus,
                nice,
                state: State::Asleep,
                is_new: true,
                unread: false,
                visit: NONE,
                remaining_ns: 0,
                woken_ns: u64::MAX,
                ran_ns: 0,
                rng,
            });
        }
        let (free, backlog) = (VecDeque::new(), VecDeque::new());
        let (socket, number) = (Socket::Unix, number as u32);
        self.groups.push(Group { first, number, kind, start_ns, socket, terminal: false, free, backlog });
        let (id, wait) = (id.to_owned(), Times::new());
        self.task_figures.push(TaskFigures { id, number, ran_ns: 0, least_ns: 0, most_ns: 0, domain_changes: 0, wait });
    }

    fn add_figures(&mut self, id: &str) -> u32 {
        let (response, unhappiness) = (Times::new(), Times::new());
        let (id, sent, answered, latest) = (id.to_owned(), 0, 0, None);
        self.customer_figures.push(CustomerFigures { id, sent, answered, latest, response, unhappiness });
        self.customer_figures.len() as u32 - 1
    }

    fn add_customer(
        &mut self,
        figures: u32,
        target: Target,
        weight: Weight,
        request_weight: Weight,
        socket: Socket,
        pace: Pace,
    ) {
        self.ledger.add_customer(weight);
        let rng = self.next_stream();
        self.customers.push(Customer { figures, target, request_weight, socket, rng });
        self.paces.push(pace);
    }
}
