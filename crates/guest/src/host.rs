//! The line to the host: the job comes on a small disk, events go out through a serial port.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use appease_scenario::{Event, Job};

use crate::clock;

const PORT_NAME: &str = "appease.events";
const JOB_SERIAL: &str = "job";
/// A job is a few kilobytes; the disk is padded.
const JOB_LIMIT: u64 = 1 << 20;

/// Where events go. Without a port (a machine started by hand) they are shown on the console.
pub struct Host {
    port: Option<File>,
}

impl Host {
    /// Opens the port.
    pub fn open() -> Self {
        Self { port: find_port().and_then(|path| OpenOptions::new().write(true).open(path).ok()) }
    }

    /// Tells the host. What cannot be told is lost, but shown on the console.
    pub fn tell(&mut self, event: &Event) {
        let Ok(mut line) = serde_json::to_string(event) else { return };
        line.push('\n');
        match &mut self.port {
            Some(port) => {
                if let Err(error) = port.write_all(line.as_bytes()) {
                    eprintln!("event not told ({error}): {line}");
                }
            }
            None => eprint!("event: {line}"),
        }
    }

    /// A stage is reached.
    pub fn phase(&mut self, name: &str) {
        let at_ms = clock::to_ms(clock::now_ns());
        eprintln!("[{:9.3}] {name}", at_ms / 1e3);
        self.tell(&Event::Phase { name: name.to_owned(), at_ms });
    }
}

fn find_port() -> Option<PathBuf> {
    let named = find_by_attribute(Path::new("/sys/class/virtio-ports"), "", "name", PORT_NAME)?;
    Some(Path::new("/dev").join(named))
}

/// Entry of `dir` whose name begins with `prefix` and whose file `attribute` reads `value`.
fn find_by_attribute(dir: &Path, prefix: &str, attribute: &str, value: &str) -> Option<String> {
    fs::read_dir(dir).ok()?.flatten().find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let found = name.starts_with(prefix)
            && fs::read_to_string(entry.path().join(attribute)).is_ok_and(|text| text.trim() == value);
        found.then_some(name)
    })
}

/// Reads the job from its disk.
pub fn read_job() -> Result<Job> {
    let Some(disk) = find_by_attribute(Path::new("/sys/block"), "vd", "serial", JOB_SERIAL) else {
        bail!("no disk with serial \"{JOB_SERIAL}\": the host must attach the job");
    };
    let path = Path::new("/dev").join(disk);
    let mut bytes = Vec::new();
    File::open(&path)
        .and_then(|file| file.take(JOB_LIMIT).read_to_end(&mut bytes))
        .with_context(|| format!("read the job from {}", path.display()))?;
    parse_job(&bytes).with_context(|| format!("job on {}", path.display()))
}

fn parse_job(padded: &[u8]) -> Result<Job> {
    let end = padded.iter().position(|&byte| byte == 0).unwrap_or(padded.len());
    Ok(serde_json::from_slice(&padded[..end])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_padded_job_is_read_and_a_broken_one_is_refused() {
        let text = r#"{"scenario":{"name":"boot","summary":"","loads":["none"],"duration_s":1.0},
            "scheduler":"eevdf","load":"hogs:4","machine":{"mode":"exact","cpus":1},"screenshot":false}"#;
        let mut padded = text.as_bytes().to_vec();
        padded.resize(4096, 0);
        let job = parse_job(&padded).expect("a job");
        assert_eq!(job.load, appease_scenario::Load::Hogs(4));
        assert_eq!(job.schedulers().collect::<Vec<_>>(), ["eevdf"]);
        let then = text.replace(r#""load""#, r#""then":["scx_lavd","appease"],"load""#);
        let job = parse_job(then.as_bytes()).expect("a job for several schedulers");
        assert_eq!(job.schedulers().collect::<Vec<_>>(), ["eevdf", "scx_lavd", "appease"]);
        assert!(parse_job(&padded[..100]).is_err());
    }
}
