//! Fuzz targets: what others than root can write, and what may be damaged. `make fuzz` runs them for long.
//!
//! Beside "no panic, and bounded memory" each has a property: what is written is read back equal, what others call themselves changes nothing
//! that is read beside it, and a refusal can be shown as it is.

mod control;
mod journals;
mod proc;
mod words;

use appease_fuzz::target;

#[test]
fn questions_of_any_client() {
    target!("control-server", control::server);
}

#[test]
fn answers_of_any_daemon() {
    target!("control-client", control::client);
}

#[test]
fn configuration() {
    target!("config", words::config);
}

#[test]
fn channels_in_words() {
    target!("channel-words", words::channel);
}

#[test]
fn addresses_of_a_resolver() {
    target!("resolver", words::resolver);
}

#[test]
fn record_of_ejections() {
    target!("ejections", journals::ejections);
}

#[test]
fn record_of_the_kernels_reserve() {
    target!("reserve", journals::reserve);
}

#[test]
fn record_of_realtime_threads() {
    target!("realtime", journals::realtime);
}

#[test]
fn threads_of_any_name() {
    target!("proc-stat", proc::stat);
}

#[test]
fn owners_of_processes_of_any_name() {
    target!("proc-status", proc::status);
}

#[test]
fn mounts_of_any_name() {
    target!("proc-mounts", proc::mounts);
}

#[test]
fn listening_sockets() {
    target!("proc-net", proc::net);
}

#[test]
fn holders_of_locks() {
    target!("proc-locks", proc::locks);
}
