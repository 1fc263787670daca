//! The onlooker: writes down every number that it sees of our scheduler, a line for each look.

use std::{
    collections::{BTreeMap, hash_map::DefaultHasher},
    fs::{self, File},
    hash::{Hash, Hasher},
    io::Write,
    os::unix::fs::MetadataExt,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{clock, system::TOOLS};

/// What is asked of the control socket.
const QUESTIONS: &[&[&str]] = &[&["status", "--json"], &["latency", "--json"], &["channel", "list", "--json"]];
/// Where files of ours, and of what we ask of the kernel, are.
const PLACES: &[&str] = &["/run/appease", "/sys/kernel/sched_ext", "/sys/kernel/debug/sched"];
/// Of each of our processes, and of each of their threads.
const OF_PROCESSES: &[&str] = &["stat", "status", "schedstat", "sched", "io", "wchan", "statm"];
/// Places are looked through so far down.
const DEPTH: u32 = 4;
const NAME: &str = "appease";

type Numbers = BTreeMap<String, f64>;

/// `look-on CUSTOMER BEGIN_NS SLOT_MS LOOK_MS SLOTS FILE`: looks at this time in each slot, and once before the first. The customer's program
/// is known by its number: it is no secret.
pub fn act(words: &[&str]) -> Result<()> {
    let [customer, begin_ns, slot_ms, look_ms, slots, file] = words else {
        bail!("an onlooker has six words, not {}", words.len());
    };
    let number = |word: &str| word.parse::<u64>().with_context(|| format!("\"{word}\" is no number"));
    let (begin_ns, slot_ms, look_ms) = (number(begin_ns)?, number(slot_ms)?, number(look_ms)?);
    let mut seen = File::create(file).with_context(|| format!("create {file}"))?;
    let ours = our_processes();
    for look in 0..=number(slots)? {
        clock::sleep_until(begin_ns + (look * slot_ms + look_ms).saturating_sub(slot_ms) * clock::MS);
        let line = serde_json::to_string(&look_around(customer, &ours)).context("write numbers down")?;
        writeln!(seen, "{line}").with_context(|| format!("write to {file}"))?;
    }
    Ok(())
}

/// Numbers of our processes that there are when it begins.
fn our_processes() -> Vec<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name.parse::<u32>().is_ok());
    pids.filter(|pid| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == NAME)).collect()
}

fn look_around(customer: &str, ours: &[String]) -> Numbers {
    let mut numbers = Numbers::new();
    for words in QUESTIONS {
        ask(&mut numbers, words);
    }
    ask(&mut numbers, &["why", "--json", customer]);
    for pid in ours {
        look_at_process(&mut numbers, pid);
    }
    for place in PLACES {
        look_into(&mut numbers, Path::new(place), DEPTH);
    }
    numbers
}

fn ask(numbers: &mut Numbers, words: &[&str]) {
    let mut command = Command::new(Path::new(TOOLS).join(NAME));
    command.args(words).stdin(Stdio::null()).stderr(Stdio::null());
    let Ok(output) = command.output() else { return };
    let name = words.join(" ");
    match serde_json::from_slice(&output.stdout) {
        Ok(value) => flatten(numbers, &name, &value),
        Err(_) => note_text(numbers, &name, &String::from_utf8_lossy(&output.stdout)),
    }
}

fn flatten(numbers: &mut Numbers, path: &str, value: &Value) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| flatten(numbers, &format!("{path}/{name}"), value))
        }
        Value::Array(items) => {
            numbers.insert(format!("{path}#"), items.len() as f64);
            items.iter().enumerate().for_each(|(index, item)| flatten(numbers, &format!("{path}/{index}"), item));
        }
        Value::Number(number) => {
            numbers.insert(path.to_owned(), number.as_f64().unwrap_or(0.0));
        }
        Value::Null => {}
        other => {
            numbers.insert(path.to_owned(), of_text(&other.to_string()));
        }
    }
}

/// A number by which a text is told from others: of 32 bits, which lose nothing.
fn of_text(text: &str) -> f64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    f64::from(hasher.finish() as u32)
}

/// Each word of a text by its place: a number, or what tells it from others.
fn note_text(numbers: &mut Numbers, path: &str, text: &str) {
    for (index, word) in text.split_whitespace().enumerate() {
        let word = word.trim_end_matches(',');
        numbers.insert(format!("{path}:{index}"), word.parse().unwrap_or_else(|_| of_text(word)));
    }
}

fn look_at_process(numbers: &mut Numbers, pid: &str) {
    let dir = format!("/proc/{pid}/task");
    for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
        for name in OF_PROCESSES {
            let path = entry.path().join(name);
            if let Ok(text) = fs::read_to_string(&path) {
                note_text(numbers, &path.display().to_string(), &text);
            }
        }
    }
}

fn look_into(numbers: &mut Numbers, path: &Path, depth: u32) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    let name = path.display().to_string();
    for (what, value) in [
        ("size", metadata.size() as i64),
        ("modified", metadata.mtime()),
        ("changed", metadata.ctime()),
        ("read", metadata.atime()),
    ] {
        numbers.insert(format!("{name} {what}"), value as f64);
    }
    if metadata.is_dir() && depth > 0 {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.for_each(|entry| look_into(numbers, &entry.path(), depth - 1));
    } else if metadata.is_file()
        && let Ok(text) = fs::read_to_string(path)
    {
        note_text(numbers, &name, &text);
    }
}
