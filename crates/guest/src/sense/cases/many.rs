//! Ten thousand channels in one configuration: loaded, listed, counted, and gone.

use std::{fmt::Write, fs, path::Path};

use anyhow::{Context, Result, anyhow, ensure};

use super::{
    Case, case,
    sockets::{READ, opens, opens_nothing},
};
use crate::{
    check::figure,
    clock,
    far::NEAR,
    sense::{
        answer::{ask, command},
        stage::Stage,
    },
};

const NUMBER: u16 = 10_000;
const FIRST_PORT: u16 = 10_000;
const LAST_PORT: u16 = FIRST_PORT + NUMBER - 1;
/// The longest that loading them may take, s.
const LOADED_S: f64 = 10.0;
/// The longest that listing them may take, s.
const LISTED_S: f64 = 10.0;

pub fn all() -> Vec<Case> {
    vec![case("ten thousand channels", many)]
}

/// The daemon's configuration, as long as this value lives.
struct Configuration;

impl Configuration {
    const FILE: &str = "/etc/appease/config.toml";

    fn new(text: &str) -> Result<Self> {
        let file = Path::new(Self::FILE);
        ensure!(!file.exists(), "{} is there already", Self::FILE);
        file.parent().map_or(Ok(()), fs::create_dir_all).context("make its directory")?;
        fs::write(file, text).with_context(|| format!("write {}", Self::FILE))?;
        Ok(Self)
    }
}

impl Drop for Configuration {
    fn drop(&mut self) {
        let _ = fs::remove_file(Self::FILE);
        if let Err(error) = command(&["reload"]) {
            println!("# {error:#}");
        }
    }
}

fn many(stage: &mut Stage) -> Result<()> {
    let mut text = String::new();
    for port in FIRST_PORT..=LAST_PORT {
        writeln!(text, "[[channel]]\naccess = \"read\"\naccept = \":{port}\"")?;
    }
    let before = number()?;
    let (link, peer) = stage.elsewhere()?.calls(NEAR, LAST_PORT)?;
    opens_nothing(stage, "before they are loaded", &link)?;
    let configuration = Configuration::new(&text)?;
    let said = took(stage, "channels_10000_load_s", LOADED_S, || command(&["reload"]))?;
    let said = String::from_utf8_lossy(&said).into_owned();
    let holds = if said.trim() == format!("channels added: {NUMBER}") { Ok(()) } else { Err(anyhow!("{said}")) };
    stage.verdict("all are loaded", holds);
    let all = took(stage, "channels_10000_list_s", LISTED_S, number)?;
    let expected = before + usize::from(NUMBER);
    let holds = if all == expected { Ok(()) } else { Err(anyhow!("{all} are listed, expected {expected}")) };
    stage.verdict("all are listed", holds);
    opens(stage, "the last one counts", &link, &READ, peer)?;
    let hits = hits()?;
    stage.verdict("and no other", if hits == [1] { Ok(()) } else { Err(anyhow!("hits: {hits:?}")) });
    drop(configuration);
    let after = number()?;
    let holds = if after == before { Ok(()) } else { Err(anyhow!("{after} are left of {before}")) };
    stage.verdict("they go again", holds);
    opens_nothing(stage, "when they are gone", &link)
}

/// Notes how long something took, seconds, and whether that is too long.
fn took<T>(stage: &mut Stage, name: &str, most_s: f64, act: impl FnOnce() -> Result<T>) -> Result<T> {
    let start_ns = clock::now_ns();
    let done = act()?;
    let took_s = clock::to_ms(clock::now_ns() - start_ns) / 1e3;
    figure(name, took_s);
    let holds = if took_s <= most_s { Ok(()) } else { Err(anyhow!("{took_s:.1} s; at most {most_s:.1} are allowed")) };
    stage.verdict(name, holds);
    Ok(done)
}

fn number() -> Result<usize> {
    let list = ask(&["channel", "list", "--json"])?;
    Ok(list["channels"].as_array().context("appease channel list --json has no channels")?.len())
}

/// Of the channels of the configuration, those that were hit.
fn hits() -> Result<Vec<u64>> {
    let list = ask(&["channel", "list", "--json"])?;
    let rows = list["channels"].as_array().context("appease channel list --json has no channels")?;
    let configured = rows.iter().filter(|row| row["source"].as_str().is_some_and(|s| s.contains("config.toml")));
    Ok(configured.filter_map(|row| row["hits"].as_u64()).filter(|&hits| hits > 0).collect())
}
