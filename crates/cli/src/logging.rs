//! Messages of the daemon, on standard error: to the journal without time and colour.

use std::io::{IsTerminal, stderr};

use tracing::{Level, level_filters::LevelFilter};
use tracing_subscriber::{filter::Targets, fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// Starts logging: INFO, with `-v` DEBUG, with `-vv` libbpf's chatter too.
pub fn start(verbose: u8) {
    let level = match verbose {
        0 => Level::INFO,
        1 => Level::DEBUG,
        _ => Level::TRACE,
    };
    let chatter = if verbose > 1 { LevelFilter::TRACE } else { LevelFilter::WARN };
    let filter = Targets::new()
        .with_default(level)
        .with_target("libbpf", level)
        .with_targets(["zlink_core", "zlink_tokio", "mio", "scx_utils"].map(|name| (name, chatter)));
    let layer = fmt::layer().with_writer(stderr).with_ansi(stderr().is_terminal()).with_target(verbose > 0);
    // The journal has its own clock.
    let journal = std::env::var_os("JOURNAL_STREAM").is_some();
    let registry = tracing_subscriber::registry().with(filter);
    if journal {
        registry.with(layer.without_time()).init();
    } else {
        registry.with(layer).init();
    }
}
