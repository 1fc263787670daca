//! The weights in force.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
};

use tracing::{debug, warn};

use super::{Rule, Words};
use crate::{
    channel::{self, Refusal},
    seams::{Eyes, MAX_WEIGHTS, Whom},
};

/// Each cgroup is looked for this often, in ticks of a second.
const ROUND: usize = 10;

/// A rule whose names are looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    rule: Rule,
    /// Of a user.
    uid: Option<u32>,
}

/// Rules that make sense together.
#[derive(Debug)]
pub(crate) struct Plan(Vec<Wanted>);

/// All rules, and what the kernel knows of them.
#[derive(Debug)]
pub(crate) struct Weights {
    root: PathBuf,
    wanted: Vec<Wanted>,
    /// Cgroups that are there.
    cgroups: HashMap<PathBuf, u64>,
    in_force: BTreeMap<Whom, u32>,
    ticks: usize,
}

impl Weights {
    /// No rules yet, on the machine whose `/proc` is below `root`.
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.into(), wanted: Vec::new(), cgroups: HashMap::new(), in_force: BTreeMap::new(), ticks: 0 }
    }

    /// Looks up names; refuses what cannot be in force, and what is there twice. `path` is for messages.
    pub(crate) fn plan(&self, rules: &[(usize, Rule)], path: &Path) -> Result<Plan, Refusal> {
        let mut seen: HashMap<String, usize> = HashMap::new();
        let mut wanted = Vec::new();
        for (line, rule) in rules {
            let refused = |refusal: Refusal| channel::config::at(path, *line, &refusal);
            let (name, uid) = match &rule.words {
                Words::User(user) => {
                    let uid = channel::uid(user).map_err(refused)?;
                    (format!("user {uid}"), Some(uid))
                }
                Words::Cgroup(cgroup) => {
                    channel::cgroup_id(&self.root, cgroup).map_err(refused)?;
                    (rule.words.to_string(), None)
                }
                words => (words.to_string(), None),
            };
            if let Some(other) = seen.insert(name, *line) {
                let text = format!("{}: line {other} has a weight for it already: remove one of them", rule.words);
                return Err(refused(Refusal::new(text)));
            }
            wanted.push(Wanted { rule: rule.clone(), uid });
        }
        let keys = wanted.iter().map(|one| 1 + usize::from(one.uid.is_some())).sum::<usize>();
        if keys > MAX_WEIGHTS {
            return Err(Refusal::new(format!(
                "{}: weights for {} customers: there is room for {MAX_WEIGHTS}, where a user counts as two: use prefixes, or \
                 remove some",
                path.display(),
                rules.len()
            )));
        }
        Ok(Plan(wanted))
    }

    /// Puts rules in place of those before, or changes nothing. How many customers have another weight, and the rules before.
    pub(crate) fn put(&mut self, plan: Plan, eyes: &mut impl Eyes) -> Result<(usize, Plan), Refusal> {
        let before = std::mem::replace(&mut self.wanted, plan.0);
        let cgroups = std::mem::take(&mut self.cgroups);
        for path in self.paths() {
            match self.look(&path) {
                Some(id) => {
                    self.cgroups.insert(path, id);
                }
                None => warn!("cgroup {} is not there yet: its weight waits for it", path.display()),
            }
        }
        if let Err(refusal) = self.tell(eyes) {
            (self.wanted, self.cgroups) = (before, cgroups);
            return Err(refusal);
        }
        let has = |all: &[Wanted], one: &Wanted| all.contains(one);
        let gone =
            before.iter().filter(|one| !self.wanted.iter().any(|other| other.rule.words == one.rule.words)).count();
        let changed = self.wanted.iter().filter(|one| !has(&before, one)).count() + gone;
        Ok((changed, Plan(before)))
    }

    /// Follows cgroups; to be called once a second.
    pub(crate) fn tick(&mut self, eyes: &mut impl Eyes) {
        self.ticks = self.ticks.wrapping_add(1);
        let turn = self.ticks % ROUND;
        let due: Vec<PathBuf> =
            self.paths().into_iter().enumerate().filter(|(at, _)| at % ROUND == turn).map(|(_, path)| path).collect();
        let before = self.cgroups.clone();
        for path in due {
            match self.look(&path) {
                Some(id) => self.cgroups.insert(path, id),
                None => self.cgroups.remove(&path),
            };
        }
        if self.cgroups == before {
            return;
        }
        match self.tell(eyes) {
            Ok(()) => debug!("weights follow cgroups that came or went"),
            Err(refusal) => {
                // It is looked for again, and told again.
                self.cgroups = before;
                warn!("{refusal}");
            }
        }
    }

    fn paths(&self) -> Vec<PathBuf> {
        let path = |one: &Wanted| match &one.rule.words {
            Words::Cgroup(path) => Some(path.clone()),
            _ => None,
        };
        self.wanted.iter().filter_map(path).collect()
    }

    fn look(&self, path: &Path) -> Option<u64> {
        channel::cgroup_id(&self.root, path).ok()?
    }

    /// Has the kernel know what is not known already.
    fn tell(&mut self, eyes: &mut impl Eyes) -> Result<(), Refusal> {
        let mut weights = BTreeMap::new();
        for Wanted { rule, uid } in &self.wanted {
            let weight = rule.weight.hundredths();
            match &rule.words {
                Words::Addresses(address, bits) => {
                    weights.insert(Whom::Addresses(*address, *bits), weight);
                }
                Words::Seat => {
                    weights.insert(Whom::Seat, weight);
                }
                Words::User(_) => {
                    // Who sits at the machine is the same user.
                    weights
                        .extend(uid.iter().flat_map(|uid| [(Whom::User(*uid), weight), (Whom::SeatOf(*uid), weight)]));
                }
                Words::Cgroup(path) => weights.extend(self.cgroups.get(path).map(|id| (Whom::Cgroup(*id), weight))),
            }
        }
        if weights != self.in_force {
            eyes.set_weights(&weights).map_err(|error| Refusal::new(error.to_string()))?;
            self.in_force = weights;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::MetadataExt};

    use super::*;
    use crate::{channel::tests::FakeKernel, customer::Weight, names::tests::root};

    fn rule(words: Words, weight: f64) -> Rule {
        Rule { words, weight: Weight::new(weight).expect("a weight") }
    }

    fn numbered(rules: Vec<Rule>) -> Vec<(usize, Rule)> {
        rules.into_iter().enumerate().map(|(at, rule)| (at + 1, rule)).collect()
    }

    struct Bench {
        weights: Weights,
        kernel: FakeKernel,
    }

    impl Bench {
        fn new(root: &Path) -> Self {
            Self { weights: Weights::new(root), kernel: FakeKernel::default() }
        }

        fn put(&mut self, rules: Vec<Rule>) -> Result<usize, String> {
            let shown = |refusal: Refusal| refusal.to_string();
            let plan = self.weights.plan(&numbered(rules), Path::new("config.toml")).map_err(shown)?;
            self.weights.put(plan, &mut self.kernel).map(|(changed, _)| changed).map_err(shown)
        }

        fn told(&self) -> Vec<(Whom, u32)> {
            self.kernel.weights.borrow().iter().map(|(whom, weight)| (*whom, *weight)).collect()
        }
    }

    #[test]
    fn a_user_is_one_wherever_it_sits() {
        let mut bench = Bench::new(Path::new("/nowhere"));
        let far = Words::prefix("192.0.2.0/24").expect("a prefix");
        let rules = vec![
            rule(Words::User("root".into()), 4.0),
            rule(Words::User("4242".into()), 0.5),
            rule(Words::Seat, 2.0),
            rule(far, 0.01),
        ];
        assert_eq!(bench.put(rules), Ok(4));
        assert_eq!(
            bench.told(),
            [
                (Whom::Seat, 200),
                (Whom::SeatOf(0), 400),
                (Whom::SeatOf(4242), 50),
                (Whom::Addresses([192, 0, 2, 0].into(), 24), 1),
                (Whom::User(0), 400),
                (Whom::User(4242), 50),
            ]
        );
    }

    #[test]
    fn changes_are_counted_and_no_change_is_not_told() {
        let mut bench = Bench::new(Path::new("/nowhere"));
        let user = |name: &str, weight| rule(Words::User(name.into()), weight);
        assert_eq!(bench.put(vec![user("1", 2.0), user("2", 2.0), user("3", 2.0)]), Ok(3));
        let calls = bench.kernel.calls.get();
        assert_eq!(bench.put(vec![user("3", 2.0), user("1", 2.0), user("2", 2.0)]), Ok(0));
        assert_eq!(bench.kernel.calls.get(), calls);
        assert_eq!(bench.put(vec![user("1", 3.0), user("2", 2.0), user("4", 2.0)]), Ok(3), "changed, gone, new");
        assert_eq!(bench.put(vec![]), Ok(3));
        assert_eq!(bench.told(), []);
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_changes_nothing() {
        let mut bench = Bench::new(Path::new("/nowhere"));
        bench.put(vec![rule(Words::Seat, 2.0)]).expect("right");
        let before = bench.told();
        let (prefix, user) = (|text: &str| Words::prefix(text).expect(text), |name: &str| Words::User(name.into()));
        let refusals = [
            bench.put(vec![rule(user("no-such-user"), 1.0)]),
            bench.put(vec![rule(user("root"), 1.0), rule(user("0"), 2.0)]),
            bench.put(vec![rule(prefix("192.0.2.4/32"), 1.0), rule(Words::address("192.0.2.4").expect("one"), 1.0)]),
            bench.put(vec![rule(Words::Seat, 1.0), rule(Words::Seat, 1.0)]),
            bench.put(vec![rule(Words::Cgroup("/a.slice".into()), 1.0)]),
            bench.put((0..2049).map(|uid| rule(user(&uid.to_string()), 2.0)).collect()),
        ]
        .map(|refused| refused.expect_err("refused"));
        insta::assert_snapshot!(refusals.join("\n"), @r#"
        config.toml, line 1: there is no user "no-such-user": look for the name with "getent passwd", or give a number
        config.toml, line 2: user 0: line 1 has a weight for it already: remove one of them
        config.toml, line 2: address 192.0.2.4: line 1 has a weight for it already: remove one of them
        config.toml, line 2: seat: line 1 has a weight for it already: remove one of them
        config.toml, line 1: cgroup /a.slice cannot be told apart: no cgroup v2 hierarchy is mounted (mount -t cgroup2 none /sys/fs/cgroup)
        config.toml: weights for 2049 customers: there is room for 4096, where a user counts as two: use prefixes, or remove some
        "#);
        assert_eq!(bench.told(), before);
        // Neither does what the kernel has no room for.
        bench.kernel.weights_at_most.set(Some(1));
        let refusal = bench.put(vec![rule(user("1"), 3.0)]).expect_err("refused");
        assert!(refusal.contains("no memory"), "{refusal}");
        assert_eq!(bench.told(), before);
        assert_eq!(bench.put(vec![rule(Words::Seat, 2.0)]), Ok(0), "and the rules are the old ones");
    }

    #[test]
    fn a_cgroup_is_waited_for_and_followed() {
        let hierarchy = root(&[("a.slice/cgroup.procs", "")]);
        let mounts = format!("cgroup2 {} cgroup2 rw 0 0\n", hierarchy.path().display());
        let machine = root(&[("proc/mounts", &mounts)]);
        let mut bench = Bench::new(machine.path());
        let cgroup = |path: &str, weight| rule(Words::Cgroup(path.into()), weight);
        assert_eq!(bench.put(vec![cgroup("/a.slice", 2.0), cgroup("/b.slice", 3.0)]), Ok(2));
        let id = |path: &str| Whom::Cgroup(fs::metadata(hierarchy.path().join(path)).expect("there").ino());
        assert_eq!(bench.told(), [(id("a.slice"), 200)]);
        fs::create_dir(hierarchy.path().join("b.slice")).expect("made");
        fs::rename(hierarchy.path().join("a.slice"), hierarchy.path().join("old")).expect("moved");
        for _ in 0..ROUND {
            bench.weights.tick(&mut bench.kernel);
        }
        assert_eq!(bench.told(), [(id("b.slice"), 300)]);
        let calls = bench.kernel.calls.get();
        for _ in 0..3 * ROUND {
            bench.weights.tick(&mut bench.kernel);
        }
        assert_eq!(bench.kernel.calls.get(), calls, "nothing to tell");
    }
}
