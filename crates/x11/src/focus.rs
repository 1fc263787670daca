//! Which client has the keyboard focus.
//!
//! Where a window manager tells it (`_NET_ACTIVE_WINDOW`), it is asked, and events of other windows are not. Elsewhere the server is
//! asked whenever focus or pointer enter or leave a window of the top level: without a manager the focus is usually
//! wherever the pointer is.

use tracing::debug;
use x11rb::{
    protocol::{
        Event,
        xproto::{
            AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, EventMask, InputFocus, NotifyMode,
            Window as XWindow,
        },
    },
    rust_connection::RustConnection,
};

use crate::{
    Error,
    agent::Window,
    display::{Display, if_there},
};

/// Windows between one of the top level and the application's own.
const FRAMES: u32 = 2;
/// More than a manager's list of what it supports has, 32-bit units.
const LONGEST_LIST: u32 = 4096;

x11rb::atom_manager! {
    /// Names of properties.
    Atoms: AtomsCookie {
        _NET_ACTIVE_WINDOW,
        _NET_SUPPORTED,
        _NET_SUPPORTING_WM_CHECK,
        WM_STATE,
    }
}

/// Follows the focus of a display.
pub(crate) struct Focus<'a> {
    connection: &'a RustConnection,
    root: XWindow,
    atoms: Atoms,
    /// By this window one sees that the manager which tells the active window is still there.
    teller: Option<XWindow>,
}

impl<'a> Focus<'a> {
    /// Begins to.
    pub(crate) fn follow(display: &'a Display) -> Result<Self, Error> {
        let connection = display.connection();
        let atoms = Atoms::new(connection)?.reply().map_err(Error::of("name properties"))?;
        let mut focus = Self { connection, root: display.root(), atoms, teller: None };
        focus.choose_events()?;
        Ok(focus)
    }

    /// Whether [`Focus::window`] may be another one after this event.
    pub(crate) fn is_touched_by(&mut self, event: &Event) -> Result<bool, Error> {
        let atoms = &self.atoms;
        match event {
            Event::PropertyNotify(changed) if changed.window == self.root => {
                if changed.atom == atoms._NET_SUPPORTED || changed.atom == atoms._NET_SUPPORTING_WM_CHECK {
                    self.choose_events()?;
                    return Ok(true);
                }
                Ok(changed.atom == atoms._NET_ACTIVE_WINDOW)
            }
            Event::DestroyNotify(gone) if Some(gone.window) == self.teller => {
                self.choose_events()?;
                Ok(true)
            }
            _ if self.teller.is_some() => Ok(false),
            Event::CreateNotify(new) if new.parent == self.root => {
                self.watch(new.window, top_level_events())?;
                Ok(false)
            }
            Event::ReparentNotify(moved) if moved.parent == self.root => {
                self.watch(moved.window, top_level_events())?;
                Ok(true)
            }
            // It may be beneath the pointer already, and have been when we did not ask for its events yet.
            Event::MapNotify(_) => Ok(true),
            // While a key or button is grabbed, as by a manager's shortcut, the focus stays whose it is.
            Event::FocusIn(moved) | Event::FocusOut(moved) => {
                Ok(moved.mode != NotifyMode::GRAB && moved.mode != NotifyMode::UNGRAB)
            }
            Event::EnterNotify(entered) => Ok(entered.mode == NotifyMode::NORMAL),
            _ => Ok(false),
        }
    }

    /// A window of the client that has it.
    pub(crate) fn window(&self) -> Result<Option<Window>, Error> {
        if self.teller.is_some() {
            return Ok(self
                .window_property(self.root, self.atoms._NET_ACTIVE_WINDOW)?
                .filter(|&window| window != x11rb::NONE));
        }
        let focus = self.connection.get_input_focus()?.reply().map_err(Error::of("tell the focus"))?.focus;
        let window = if focus == u32::from(InputFocus::NONE) {
            None
        } else if focus == u32::from(InputFocus::POINTER_ROOT) || focus == self.root {
            // The keyboard is whoever's the pointer is on.
            let pointer = self.connection.query_pointer(self.root)?.reply().map_err(Error::of("tell the pointer"))?;
            Some(pointer.child).filter(|&window| window != x11rb::NONE)
        } else {
            Some(focus)
        };
        match window {
            Some(window) if self.has_manager()? => self.framed(window).map(Some),
            window => Ok(window),
        }
    }

    /// Asks for the events that matter under the manager that there is.
    fn choose_events(&mut self) -> Result<(), Error> {
        let before = self.teller;
        self.teller = self.find_teller()?;
        let of_root = match self.teller {
            Some(teller) => {
                self.watch(teller, EventMask::STRUCTURE_NOTIFY)?;
                EventMask::PROPERTY_CHANGE
            }
            None => EventMask::PROPERTY_CHANGE | EventMask::SUBSTRUCTURE_NOTIFY | top_level_events(),
        };
        self.watch(self.root, of_root)?;
        let of_top_level = if self.teller.is_some() { EventMask::NO_EVENT } else { top_level_events() };
        for window in self.children(self.root)?.into_iter().filter(|&window| Some(window) != self.teller) {
            self.watch(window, of_top_level)?;
        }
        match self.teller {
            Some(teller) if before != self.teller => debug!("the focus is told by the manager with window {teller:#x}"),
            None => debug!("no manager tells the focus"),
            Some(_) => {}
        }
        Ok(())
    }

    /// The window of a manager that says it tells the active window, and is still there: properties outlive who set them.
    fn find_teller(&self) -> Result<Option<XWindow>, Error> {
        let Atoms { _NET_ACTIVE_WINDOW: active, _NET_SUPPORTED: supported, _NET_SUPPORTING_WM_CHECK: check, .. } =
            self.atoms;
        let Some(window) = self.window_property(self.root, check)? else { return Ok(None) };
        if self.window_property(window, check)? != Some(window) {
            return Ok(None);
        }
        let list = self.connection.get_property(false, self.root, supported, AtomEnum::ATOM, 0, LONGEST_LIST)?.reply();
        let tells =
            if_there(list)?.is_some_and(|list| list.value32().is_some_and(|mut atoms| atoms.any(|a| a == active)));
        Ok(Some(window).filter(|_| tells))
    }

    /// Whether anybody puts frames around windows.
    fn has_manager(&self) -> Result<bool, Error> {
        let root = self.connection.get_window_attributes(self.root)?.reply().map_err(Error::of("tell its root"))?;
        Ok(root.all_event_masks.contains(EventMask::SUBSTRUCTURE_REDIRECT))
    }

    /// The application's window in a manager's frame, which has a state from the manager; any other window itself.
    fn framed(&self, window: XWindow) -> Result<XWindow, Error> {
        let mut level = vec![window];
        for _ in 0..=FRAMES {
            let mut inner = Vec::new();
            for &window in &level {
                let state =
                    self.connection.get_property(false, window, self.atoms.WM_STATE, AtomEnum::ANY, 0, 0)?.reply();
                if if_there(state)?.is_some_and(|state| state.type_ != x11rb::NONE) {
                    return Ok(window);
                }
                inner.extend(self.children(window)?);
            }
            level = inner;
        }
        Ok(window)
    }

    fn children(&self, window: XWindow) -> Result<Vec<XWindow>, Error> {
        Ok(if_there(self.connection.query_tree(window)?.reply())?.map(|tree| tree.children).unwrap_or_default())
    }

    fn window_property(&self, window: XWindow, name: u32) -> Result<Option<XWindow>, Error> {
        let reply = self.connection.get_property(false, window, name, AtomEnum::WINDOW, 0, 1)?.reply();
        Ok(if_there(reply)?.and_then(|property| property.value32()?.next()))
    }

    fn watch(&self, window: XWindow, events: EventMask) -> Result<(), Error> {
        let asked = ChangeWindowAttributesAux::new().event_mask(events);
        self.connection.change_window_attributes(window, &asked)?.ignore_error();
        Ok(())
    }
}

fn top_level_events() -> EventMask {
    EventMask::ENTER_WINDOW | EventMask::FOCUS_CHANGE
}
