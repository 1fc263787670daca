use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
};

use super::*;

/// Windows 10 to 19 are client 1's, 20 to 29 client 2's, and so on.
const EDITOR: Window = 10;
const BUILDER: Window = 20;

/// A server of which one sees what was asked of it, journal included, in order.
#[derive(Default)]
struct Fake {
    priorities: RefCell<BTreeMap<u32, i32>>,
    windows: RefCell<Vec<Window>>,
    log: Rc<RefCell<Vec<String>>>,
    is_gone: Cell<bool>,
}

impl Fake {
    fn with(windows: &[Window]) -> Self {
        Self { windows: RefCell::new(windows.to_vec()), ..Self::default() }
    }

    fn note(&self, line: String) {
        self.log.borrow_mut().push(line);
    }

    fn said(&self) -> String {
        std::mem::take(&mut *self.log.borrow_mut()).join("; ")
    }

    fn of(&self, window: Window) -> i32 {
        self.priorities.borrow().get(&self.client(window)).copied().unwrap_or(NORMAL)
    }

    fn set(&self, window: Window, priority: i32) {
        self.priorities.borrow_mut().insert(self.client(window), priority);
    }

    fn close(&self, window: Window) {
        self.windows.borrow_mut().retain(|&there| there != window);
    }

    fn agent(&self) -> Agent<'_, Self, Notes> {
        let mut agent = Agent::new(self, Notes(self.log.clone()));
        agent.set_active(true, 0).expect("served");
        agent
    }
}

impl Server for Fake {
    fn client(&self, window: Window) -> u32 {
        window / 10
    }

    fn priority(&self, window: Window) -> Result<Option<i32>, Error> {
        if self.is_gone.get() {
            return Err(Error::Lost(x11rb::errors::ConnectionError::UnknownError));
        }
        Ok(self.windows.borrow().contains(&window).then(|| self.of(window)))
    }

    fn set_priority(&self, window: Window, priority: i32) -> Result<(), Error> {
        assert!(self.windows.borrow().contains(&window));
        self.set(window, priority);
        self.note(format!("{window} to {priority}"));
        Ok(())
    }

    fn rest(&self, window: Window, lower: i32, upper: i32, for_ms: u64) -> Result<(), Error> {
        self.note(format!("{window} to {lower} for {for_ms} ms, then {upper}"));
        Ok(())
    }

    fn stand_in(&self, window: Window) -> Result<Option<Window>, Error> {
        let client = self.client(window);
        Ok(self.windows.borrow().iter().copied().find(|&other| self.client(other) == client))
    }
}

struct Notes(Rc<RefCell<Vec<String>>>);

impl Journal for Notes {
    fn record(&mut self, changed: Option<Changed>) -> Result<(), Error> {
        self.0.borrow_mut().push(match changed {
            Some(changed) => format!("note {} was {}", changed.window, changed.former),
            None => "note nothing".into(),
        });
        Ok(())
    }
}

#[test]
fn the_focused_client_is_raised_and_the_one_before_has_its_own_back() {
    let server = Fake::with(&[EDITOR, BUILDER]);
    let mut agent = server.agent();
    agent.set_focus(Some(EDITOR), 0).expect("served");
    assert_eq!(server.said(), "note 10 was 0; 10 to 1", "written down before it is changed");
    agent.set_focus(Some(BUILDER), 0).expect("served");
    assert_eq!(server.said(), "10 to 0; note nothing; note 20 was 0; 20 to 1");
    agent.set_focus(None, 0).expect("served");
    assert_eq!(server.said(), "20 to 0; note nothing");
}

#[test]
fn the_same_focus_again_costs_nothing() {
    let server = Fake::with(&[EDITOR]);
    let mut agent = server.agent();
    agent.set_focus(Some(EDITOR), 0).expect("served");
    server.said();
    agent.set_focus(Some(EDITOR), 100).expect("served");
    agent.set_active(true, 100).expect("served");
    assert_eq!(server.said(), "");
}

#[test]
fn a_priority_that_somebody_set_is_left_alone() {
    let server = Fake::with(&[EDITOR, BUILDER]);
    server.set(EDITOR, -3);
    let mut agent = server.agent();
    agent.set_focus(Some(EDITOR), 0).expect("served");
    assert_eq!(agent.next_tick_ms(), None, "nobody is raised, so nobody has to rest");
    agent.set_focus(Some(BUILDER), 0).expect("served");
    server.said();
    server.set(BUILDER, 7);
    agent.set_focus(None, 0).expect("served");
    assert_eq!(server.said(), "note nothing");
    assert_eq!((server.of(EDITOR), server.of(BUILDER)), (-3, 7));
}

#[test]
fn who_raised_a_window_that_is_closed_is_lowered_by_another() {
    let server = Fake::with(&[EDITOR, EDITOR + 1, BUILDER]);
    let mut agent = server.agent();
    agent.set_focus(Some(EDITOR), 0).expect("served");
    server.close(EDITOR);
    agent.set_focus(Some(BUILDER), 0).expect("served");
    assert_eq!((server.of(EDITOR), server.of(BUILDER)), (NORMAL, RAISED));
    // A client that ended took its priority along.
    server.close(BUILDER);
    server.said();
    agent.set_focus(None, 0).expect("served");
    assert_eq!(server.said(), "note nothing");
}

#[test]
fn a_second_window_of_the_same_client_is_only_noted() {
    let server = Fake::with(&[EDITOR, EDITOR + 1]);
    let mut agent = server.agent();
    agent.set_focus(Some(EDITOR), 0).expect("served");
    server.said();
    agent.set_focus(Some(EDITOR + 1), 0).expect("served");
    assert_eq!(server.said(), "note 11 was 0");
    server.close(EDITOR);
    agent.give_back().expect("served");
    assert_eq!(server.said(), "11 to 0; note nothing");
}

#[test]
fn nobody_is_raised_and_nothing_is_timed_while_the_user_is_idle() {
    let server = Fake::with(&[EDITOR, BUILDER]);
    let mut agent = server.agent();
    agent.set_focus(Some(EDITOR), 0).expect("served");
    agent.set_active(false, 3000).expect("served");
    assert_eq!((server.of(EDITOR), agent.next_tick_ms()), (NORMAL, None));
    server.said();
    agent.set_focus(Some(BUILDER), 4000).expect("served");
    assert_eq!(server.said(), "", "who has the focus is only remembered");
    agent.set_active(true, 5000).expect("served");
    assert_eq!(server.said(), "note 20 was 0; 20 to 1");
}

#[test]
fn the_raised_client_rests_in_each_period_whoever_it_is() {
    let server = Fake::with(&[EDITOR, BUILDER]);
    let mut agent = server.agent();
    agent.set_focus(Some(EDITOR), 100).expect("served");
    assert_eq!(agent.next_tick_ms(), Some(1050));
    agent.set_focus(Some(BUILDER), 900).expect("served");
    assert_eq!(agent.next_tick_ms(), Some(1050), "a switch does not put it off");
    server.said();
    agent.tick(1049).expect("served");
    assert_eq!(server.said(), "");
    agent.tick(1060).expect("served");
    assert_eq!(server.said(), "20 to 0 for 50 ms, then 1");
    assert_eq!(agent.next_tick_ms(), Some(2060));
}

#[test]
fn what_a_killed_agent_left_is_taken_back_if_it_is_still_ours() {
    let server = Fake::with(&[EDITOR, BUILDER]);
    let left = |window| Some(Changed { window, former: NORMAL });
    server.set(EDITOR, RAISED);
    server.set(BUILDER, 5);
    let mut agent = server.agent();
    agent.take_back(left(EDITOR)).expect("served");
    agent.take_back(left(BUILDER)).expect("served");
    agent.take_back(left(30)).expect("a window that is gone");
    agent.take_back(None).expect("nothing");
    assert_eq!(server.said(), "10 to 0; note nothing; note nothing; note nothing");
    assert_eq!(server.of(BUILDER), 5);
}

#[test]
fn a_lost_server_is_an_error() {
    let server = Fake::with(&[EDITOR]);
    let mut agent = server.agent();
    server.is_gone.set(true);
    assert!(matches!(agent.set_focus(Some(EDITOR), 0), Err(Error::Lost(_))));
}
