//! Confidence in handlers and cohandlers (RSIO, sections 4.2 and 4.3).

use appease_policy::{CONFIDENCE_ENTRIES, Candidates};
use proptest::prelude::*;

const MAX_CONF: u32 = 5;
const CO_CONF: u32 = 2;
const MS: u64 = 1_000_000;
const CO_DELTA: u64 = 5 * MS;

/// Figure 2 of the paper, step by step: five activations of a process with two candidates, of which the second takes over
/// from the first. The text gives (1, 3) for the end; by its own rule ("for all other cohandlers, the callback decrements
/// the confidence by one") the first candidate, who has 1 after the third activation and is silent in the two that
/// follow, ends at 0. What counts is the same: one has more than the threshold, the other has not.
#[test]
fn figure_2_step_by_step() {
    let (p1, p2) = (1, 2);
    let mut candidates = Candidates::default();
    let mut step = |who: u32, talks: u64, activated: u64| {
        candidates.communicate(who, talks * MS);
        candidates.adjust(activated * MS, CO_DELTA, MAX_CONF);
        (candidates.confidence(p1).unwrap_or_default(), candidates.confidence(p2).unwrap_or_default())
    };
    // t1, t2: before the activation; t4 and on: after it.
    assert_eq!(step(p1, 98, 100), (1, 0));
    assert_eq!(step(p1, 203, 200), (2, 0));
    assert_eq!(step(p2, 304, 300), (1, 1));
    assert_eq!(step(p2, 396, 400), (0, 2));
    let (first, second) = step(p2, 505, 500);
    assert_eq!((first, second), (0, 3));
    assert!(first <= CO_CONF && second > CO_CONF);
}

#[test]
fn a_word_typed_elsewhere_ends_a_handler() {
    let (old, new) = (1, 2);
    let mut handlers = Candidates::default();
    (0..20).for_each(|key| handlers.interact(old, key * 150 * MS, MAX_CONF));
    assert_eq!(handlers.confidence(old), Some(MAX_CONF));
    for key in 0..u64::from(MAX_CONF) {
        assert!(handlers.confidence(old) > Some(0), "before key {key} in the other window");
        handlers.interact(new, 4000 * MS + key * 150 * MS, MAX_CONF);
    }
    assert_eq!(handlers.confidence(old), Some(0));
    assert_eq!(handlers.confidence(new), Some(MAX_CONF));
}

#[test]
fn the_window_is_closed_at_both_ends() {
    let within = |access| appease_policy::confidence_within(access, 100 * MS, CO_DELTA);
    assert!(within(95 * MS) && within(105 * MS));
    assert!(!within(95 * MS - 1) && !within(105 * MS + 1));
}

#[test]
fn a_full_list_gives_up_the_least() {
    let mut candidates = Candidates::default();
    for id in 1..=CONFIDENCE_ENTRIES {
        candidates.communicate(id, u64::from(id));
    }
    // All but the third one take part.
    (1..=CONFIDENCE_ENTRIES).filter(|&id| id != 3).for_each(|id| candidates.communicate(id, 100 * MS));
    candidates.adjust(100 * MS, CO_DELTA, MAX_CONF);
    candidates.communicate(99, 101 * MS);
    assert_eq!(candidates.confidence(3), None);
    assert_eq!(candidates.confidence(99), Some(0));
    assert_eq!(candidates.ids().count(), CONFIDENCE_ENTRIES as usize);
}

#[test]
fn who_ended_is_on_no_list() {
    let mut candidates = Candidates::default();
    candidates.interact(7, MS, MAX_CONF);
    candidates.forget(7);
    assert_eq!(candidates.confidence(7), None);
    assert_eq!(candidates.ids().count(), 0);
}

/// Something that happens to a list.
#[derive(Debug, Clone)]
enum Event {
    Interact(u32),
    Communicate(u32),
    Adjust,
    Forget(u32),
}

fn events() -> impl Strategy<Value = Vec<(Event, u64)>> {
    let id = 1u32..40;
    let event = prop_oneof![
        id.clone().prop_map(Event::Interact),
        id.clone().prop_map(Event::Communicate),
        Just(Event::Adjust),
        id.prop_map(Event::Forget),
    ];
    prop::collection::vec((event, 0..20 * MS), 0..200)
}

proptest! {
    /// Whatever happens: nobody is on the list twice, no confidence is above the ceiling, and who just did something is there.
    #[test]
    fn lists_stay_sound(events in events(), max in 1u32..10) {
        let (mut list, mut now) = (Candidates::default(), MS);
        for (event, passed) in events {
            now += passed;
            match event {
                Event::Interact(id) => {
                    let before = list.confidence(id).unwrap_or_default();
                    list.interact(id, now, max);
                    prop_assert_eq!(list.confidence(id), Some((before + 1).min(max)));
                }
                Event::Communicate(id) => {
                    let before = list.confidence(id).unwrap_or_default();
                    list.communicate(id, now);
                    prop_assert_eq!(list.confidence(id), Some(before));
                }
                Event::Adjust => list.adjust(now, CO_DELTA, max),
                Event::Forget(id) => list.forget(id),
            }
            let mut ids: Vec<u32> = list.ids().collect();
            prop_assert!(ids.iter().all(|&id| list.confidence(id) <= Some(max)));
            ids.sort_unstable();
            ids.dedup();
            prop_assert_eq!(ids.len(), list.ids().count());
        }
    }

    /// Who communicates at each activation is a cohandler after as many as it takes; who never does, never.
    #[test]
    fn only_regulars_become_cohandlers(offsets in prop::collection::vec(0..=2 * CO_DELTA, 3..30)) {
        let mut list = Candidates::default();
        list.communicate(2, 0);
        for (round, offset) in offsets.iter().enumerate() {
            let activated = (round as u64 + 1) * 1000 * MS;
            list.communicate(1, activated - CO_DELTA + offset);
            list.adjust(activated, CO_DELTA, MAX_CONF);
            prop_assert_eq!(list.confidence(1) > Some(CO_CONF), round as u32 >= CO_CONF);
            prop_assert_eq!(list.confidence(2), Some(0));
        }
    }
}
