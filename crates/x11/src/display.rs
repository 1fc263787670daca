//! A connection to the X server: priorities, activity of the user, and that there is one agent.

use std::os::fd::{AsFd, BorrowedFd};

use tracing::debug;
use x11rb::{
    CURRENT_TIME,
    connection::{Connection, RequestConnection},
    errors::ReplyError,
    protocol::{
        Event,
        res::{self, ConnectionExt as _, ResourceIdSpec},
        sync::{self, ConnectionExt as _, CreateAlarmAux, Int64, TESTTYPE, Trigger, VALUETYPE, Waitcondition},
        xkb::{self, ConnectionExt as _},
        xproto::{ClientMessageEvent, ConnectionExt as _, CreateWindowAux, EventMask, Window as XWindow, WindowClass},
    },
    rust_connection::RustConnection,
};

use crate::{
    ASIDE_MS, Error,
    agent::{IDLE_MS, OWN, Server, Window},
};

/// Whoever owns this selection serves the display. It is the server's own way to have one of a kind, and ends with its owner.
pub const SELECTION: &str = "_APPEASE_X11_S0";

/// Type of the message that the user begins to be active.
const BEGUN: &str = "_APPEASE_X11_BEGUN";

/// The version of SYNC that has what we need.
const SYNC_VERSION: (u8, u8) = (3, 0);
/// Resources of one client can be asked for by one call since this version.
const RES_VERSION: (u8, u8) = (1, 2);
/// The version of XKEYBOARD that every server has.
const XKB_VERSION: (u16, u16) = (1, 0);
/// Never reached by what rises: nobody wants to be told that a rest is over.
const NEVER: Int64 = Int64 { hi: i32::MAX, lo: u32::MAX };
/// Never reached by what falls.
const NEVER_BELOW: Int64 = Int64 { hi: i32::MIN, lo: 0 };
/// Begins of input that the server waits for without being asked again: one, and one more for while we do not get the CPU.
const AWAITED: u32 = 2;

/// An X server.
pub(crate) struct Display {
    connection: RustConnection,
    root: XWindow,
    own: XWindow,
    selection: u32,
    begun: u32,
    clock: sync::Counter,
    idle: Option<sync::Counter>,
    has_res: bool,
}

impl Display {
    /// Connects, and becomes the one agent of the display.
    pub(crate) fn connect(name: &str) -> Result<Self, Error> {
        let (connection, number) = connect(name)?;
        let root = connection.setup().roots[number].root;
        let no_sync = || Error::NoSync { display: name.into() };
        let counters =
            connection.sync_list_system_counters()?.reply().map_err(Error::of("list its counters"))?.counters;
        let counter = |name: &[u8]| counters.iter().find(|counter| counter.name == name).map(|counter| counter.counter);
        // SYNC promises this one.
        let clock = counter(b"SERVERTIME").ok_or_else(no_sync)?;
        let idle = counter(b"IDLETIME");
        let has_res = has_resources(&connection)?;
        let selection =
            connection.intern_atom(false, SELECTION.as_bytes())?.reply().map_err(Error::of("name a selection"))?.atom;
        let own = connection.generate_id().map_err(Error::of_id("create a window"))?;
        let begun = connection.intern_atom(false, BEGUN.as_bytes())?.reply().map_err(Error::of("name a message"))?.atom;
        let display = Self { connection, root, own, selection, begun, clock, idle, has_res };
        display.become_the_one(name)?;
        // By default all clients have the same, ours included.
        display.connection.sync_set_priority(x11rb::NONE, OWN)?;
        Ok(display)
    }

    fn become_the_one(&self, name: &str) -> Result<(), Error> {
        let connection = &self.connection;
        let looks = CreateWindowAux::new();
        connection.create_window(0, self.own, self.root, -1, -1, 1, 1, 0, WindowClass::INPUT_ONLY, 0, &looks)?;
        // Two that ask at once must not both find that there is none.
        connection.grab_server()?;
        let owner =
            connection.get_selection_owner(self.selection)?.reply().map_err(Error::of("tell a selection"))?.owner;
        if owner == x11rb::NONE {
            connection.set_selection_owner(self.own, self.selection, CURRENT_TIME)?;
        }
        connection.ungrab_server()?;
        connection.flush()?;
        if owner == x11rb::NONE { Ok(()) } else { Err(Error::AlreadyServed { display: name.into() }) }
    }

    /// Over a connection to whoever plays the server.
    #[cfg(test)]
    pub(crate) fn over(connection: RustConnection) -> Self {
        Self { connection, root: 1, own: 2, selection: 3, begun: 4, clock: 5, idle: None, has_res: true }
    }

    /// Asks to be told when the user begins and ends to be active; `None` when the server does not know.
    pub(crate) fn watch_activity(&self, name: &str) -> Result<Option<Activity>, Error> {
        let Some(counter) = self.idle else { return Ok(None) };
        let (waiting, _) = connect(name)?;
        let ends = self.connection.generate_id().map_err(Error::of_id("set an alarm"))?;
        let asked = CreateAlarmAux::new()
            .counter(counter)
            .value_type(VALUETYPE::ABSOLUTE)
            .value(milliseconds(IDLE_MS))
            .test_type(TESTTYPE::POSITIVE_TRANSITION)
            // Else it would move on by one each time it fires.
            .delta(milliseconds(0))
            .events(1);
        self.connection.sync_create_alarm(ends, &asked)?.check().map_err(Error::of("set an alarm"))?;
        let idle = self.connection.sync_query_counter(counter)?.reply().map_err(Error::of("tell a counter"))?;
        let idle_ms = u64::from(idle.counter_value.hi.unsigned_abs()) << 32 | u64::from(idle.counter_value.lo);
        let activity = Activity {
            waiting,
            counter,
            clock: self.clock,
            window: self.own,
            begun: self.begun,
            ends,
            at_first: idle_ms < IDLE_MS,
        };
        (0..AWAITED).try_for_each(|_| activity.await_input())?;
        Ok(Some(activity))
    }

    /// The next event that is there.
    pub(crate) fn event(&self) -> Result<Option<Event>, Error> {
        let event = self.connection.poll_for_event()?;
        if let Some(Event::Error(error)) = &event {
            // Windows go while we speak of them.
            debug!("the X server refused request {}: {:?}", error.sequence, error.error_kind);
        }
        Ok(event)
    }

    /// Sends what is still to be sent.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        Ok(self.connection.flush()?)
    }

    /// Waits until all that was asked for is done.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        self.connection.get_input_focus()?.reply().map(drop).map_err(Error::of("answer"))
    }

    /// Whether another program serves the display now.
    pub(crate) fn has_lost_selection(&self, event: &Event) -> bool {
        matches!(event, Event::SelectionClear(lost) if lost.owner == self.own && lost.selection == self.selection)
    }

    pub(crate) fn connection(&self) -> &RustConnection {
        &self.connection
    }

    pub(crate) fn root(&self) -> XWindow {
        self.root
    }
}

impl AsFd for Display {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.stream().as_fd()
    }
}

impl Server for Display {
    fn client(&self, window: Window) -> u32 {
        window & !self.connection.setup().resource_id_mask
    }

    fn priority(&self, window: Window) -> Result<Option<i32>, Error> {
        let reply = self.connection.sync_get_priority(window)?.reply();
        if_there(reply.map(|reply| reply.priority))
    }

    fn set_priority(&self, window: Window, priority: i32) -> Result<(), Error> {
        self.connection.sync_set_priority(window, priority)?.ignore_error();
        Ok(())
    }

    /// The server reads the last request only when the time of the second has come. So neither a CPU that is taken nor our end
    /// makes a rest longer.
    fn rest(&self, window: Window, lower: i32, upper: i32, for_ms: u64) -> Result<(), Error> {
        let over = Trigger {
            counter: self.clock,
            wait_type: VALUETYPE::RELATIVE,
            wait_value: milliseconds(for_ms),
            test_type: TESTTYPE::POSITIVE_COMPARISON,
        };
        self.set_priority(window, lower)?;
        self.connection.sync_await_(&[Waitcondition { trigger: over, event_threshold: NEVER }])?.ignore_error();
        self.set_priority(window, upper)
    }

    fn stand_in(&self, window: Window) -> Result<Option<Window>, Error> {
        if !self.has_res {
            return Ok(None);
        }
        let client = self.client(window);
        let any = ResourceIdSpec { resource: x11rb::NONE, type_: x11rb::NONE };
        let reply = self.connection.res_query_resource_bytes(client, &[any])?.reply();
        let sizes = if_there(reply)?.map(|reply| reply.sizes).unwrap_or_default();
        let resources = sizes.iter().map(|size| size.size.spec.resource);
        let mut own = resources.filter(|&resource| resource != window && self.client(resource) == client);
        Ok(own.next())
    }
}

/// Whether the user is active.
///
/// An alarm would tell of the first key after a pause while that is being answered: the server would write to us and wake us up, and
/// have the key wait for both. So a connection of its own waits for the input, then for a moment, and then sends us a message. All three
/// are asked for beforehand, and the server does them by itself.
pub(crate) struct Activity {
    waiting: RustConnection,
    counter: sync::Counter,
    clock: sync::Counter,
    window: XWindow,
    begun: u32,
    ends: sync::Alarm,
    /// At first.
    pub(crate) at_first: bool,
}

impl Activity {
    /// What an event says about it. Another begin is waited for then.
    pub(crate) fn says(&self, event: &Event) -> Result<Option<bool>, Error> {
        match event {
            Event::ClientMessage(told) if told.window == self.window && told.type_ == self.begun => {
                self.await_input()?;
                Ok(Some(true))
            }
            Event::SyncAlarmNotify(fired) if fired.alarm == self.ends => Ok(Some(false)),
            _ => Ok(None),
        }
    }

    fn await_input(&self) -> Result<(), Error> {
        let wait = |counter, wait_type, ms, test_type, event_threshold| Waitcondition {
            trigger: Trigger { counter, wait_type, wait_value: milliseconds(ms), test_type },
            event_threshold,
        };
        let waiting = &self.waiting;
        // The server tells a fall only from above the value: had it just told that IDLE_MS is reached, it would be none.
        let falls = wait(self.counter, VALUETYPE::ABSOLUTE, IDLE_MS - 1, TESTTYPE::NEGATIVE_TRANSITION, NEVER_BELOW);
        let passes = wait(self.clock, VALUETYPE::RELATIVE, ASIDE_MS, TESTTYPE::POSITIVE_COMPARISON, NEVER);
        waiting.sync_await_(&[falls])?.ignore_error();
        waiting.sync_await_(&[passes])?.ignore_error();
        // For no event in particular, it goes to whoever made the window.
        let told = ClientMessageEvent::new(32, self.window, self.begun, [0; 5]);
        waiting.send_event(false, self.window, EventMask::NO_EVENT, told)?.ignore_error();
        Ok(waiting.flush()?)
    }
}

/// Connects to a display that has SYNC, as one to whom nobody tells of a change of keyboards: the server would do so while the first key of
/// another keyboard is being answered. Also the number of the screen.
fn connect(name: &str) -> Result<(RustConnection, usize), Error> {
    let (connection, number) =
        x11rb::connect(Some(name)).map_err(|source| Error::Unreachable { display: name.into(), r#source })?;
    if connection.extension_information(sync::X11_EXTENSION_NAME)?.is_none() {
        return Err(Error::NoSync { display: name.into() });
    }
    connection.sync_initialize(SYNC_VERSION.0, SYNC_VERSION.1)?.reply().map_err(Error::of("begin with SYNC"))?;
    if connection.extension_information(xkb::X11_EXTENSION_NAME)?.is_some() {
        connection
            .xkb_use_extension(XKB_VERSION.0, XKB_VERSION.1)?
            .reply()
            .map_err(Error::of("begin with XKEYBOARD"))?;
    }
    Ok((connection, number))
}

fn has_resources(connection: &RustConnection) -> Result<bool, Error> {
    if connection.extension_information(res::X11_EXTENSION_NAME)?.is_none() {
        return Ok(false);
    }
    let version = connection.res_query_version(RES_VERSION.0, RES_VERSION.1)?.reply();
    let version = version.map_err(Error::of("begin with X-Resource"))?;
    Ok((version.server_major, version.server_minor) >= (RES_VERSION.0.into(), RES_VERSION.1.into()))
}

/// An answer about something that may be gone.
pub(crate) fn if_there<T>(reply: Result<T, ReplyError>) -> Result<Option<T>, Error> {
    match reply {
        Ok(answer) => Ok(Some(answer)),
        Err(ReplyError::X11Error(_)) => Ok(None),
        Err(ReplyError::ConnectionError(error)) => Err(error.into()),
    }
}

fn milliseconds(ms: u64) -> Int64 {
    let [hi, lo] = [(ms >> 32) as u32, ms as u32];
    Int64 { hi: hi.cast_signed(), lo }
}

#[cfg(test)]
mod tests;
