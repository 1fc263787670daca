//! Fuzz targets: what other clients put into windows and properties, as the server hands it on, and the file of a former agent.

use std::{io::Write, net::Shutdown, os::unix::net::UnixStream};

use appease_fuzz::target;
use x11rb::{
    protocol::xproto::Setup,
    rust_connection::{DefaultStream, RustConnection},
};

use crate::{
    Error,
    agent::{Agent, Changed, Journal},
    display::Display,
    focus::Focus,
    state::{file_part, line, parse, text},
};

/// The part of an id that a client chooses, as servers have it.
const ID_MASK: u32 = 0x001f_ffff;
/// Bytes of the shortest packet, and the two kinds that may be longer.
const PACKET: usize = 32;
const REPLY: u8 = 1;
const GENERIC_EVENT: u8 = 35;

#[test]
fn answers_and_events() {
    target!("x11-replies", replies);
}

#[test]
fn file_of_a_former_agent() {
    target!("x11-state", state);
}

#[derive(Default)]
struct Written(Option<Changed>);

impl Journal for Written {
    fn record(&mut self, changed: Option<Changed>) -> Result<(), Error> {
        self.0 = changed;
        Ok(())
    }
}

/// Packets as they may come. The server itself tells no wrong length: that of a packet is what is there, at most.
fn packets(input: &[u8]) -> Vec<u8> {
    let (mut packets, mut rest) = (Vec::new(), input);
    while let Some((head, after)) = rest.split_first_chunk::<PACKET>() {
        let mut head = *head;
        let is_long = head[0] == REPLY || head[0] & 0x7f == GENERIC_EVENT;
        let said = u32::from_ne_bytes([head[4], head[5], head[6], head[7]]);
        let words = (after.len() / 4).min(said as usize);
        if is_long {
            head[4..8].copy_from_slice(&u32::try_from(words).unwrap_or(0).to_ne_bytes());
        }
        let (more, after) = after.split_at(if is_long { 4 * words } else { 0 });
        packets.extend(head);
        packets.extend(more);
        rest = after;
    }
    packets
}

/// Follows the focus through whatever the server says, until it says no more.
fn replies(input: &[u8]) {
    let (server, client) = UnixStream::pair().expect("a pair");
    (&server).write_all(&packets(input)).expect("it has room");
    server.shutdown(Shutdown::Write).expect("it is open");
    let (stream, _) = DefaultStream::from_unix_stream(client).expect("a socket");
    let setup = Setup { resource_id_base: 0x0020_0000, resource_id_mask: ID_MASK, ..Setup::default() };
    let connection = RustConnection::for_connected_stream(stream, setup).expect("it is connected");
    let display = Display::over(connection);
    let mut agent = Agent::new(&display, Written::default());
    let ended = follow(&display, &mut agent);
    assert!(ended.is_some_and(|error| !error.to_string().is_empty()), "it waits for more");
}

/// As `serve()`, but for the clock and signals. Why it ended.
fn follow(display: &Display, agent: &mut Agent<Display, Written>) -> Option<Error> {
    let mut turns = || -> Result<(), Error> {
        let mut focus = Focus::follow(display)?;
        agent.set_active(true, 0)?;
        for now_ms in 0.. {
            agent.set_focus(focus.window()?, now_ms)?;
            while let Some(event) = display.event()? {
                focus.is_touched_by(&event)?;
            }
            agent.tick(now_ms)?;
        }
        Ok(())
    };
    turns().err()
}

/// What is written is read back, and the file of a display is in no other directory.
fn state(input: &[u8]) {
    let text = text(input.to_vec());
    if let Some(changed) = parse(&text) {
        assert_eq!(parse(&line(changed)), Some(changed));
    }
    let part = file_part(&text);
    assert!(part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{part:?}");
}
