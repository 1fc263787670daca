//! What goes on while our daemon comes and goes: somebody presses keys, programs read them and start others, and others keep all CPUs busy.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use anyhow::Result;

use crate::{
    classes::{
        leaving::{HOGS, SLEEPERS},
        task::Task,
    },
    clock,
    sense::device::{Device, Shape},
    system,
};

/// Modules that bring input devices.
const MODULES: &[&str] = &["evdev", "uinput"];
/// Readers of the device.
const READERS: [&str; 3] = ["nice -n 3", "nice -n -2", "chrt --reset-on-fork --other 0 nice -n 5"];
/// How long their children live, seconds.
const CHILD_S: &str = "0.4";
/// How often a key is pressed.
const KEY_EACH_MS: u64 = 150;
/// A realtime program that at times keeps the CPU for longer than others may be kept waiting.
const REALTIME: &str = "chrt --fifo 10";
const REALTIME_MS: (u64, u64) = (80, 300);

/// All of it, as long as this value lives.
pub struct Stage {
    tasks: Vec<Task>,
    _hand: Hand,
}

impl Stage {
    /// Begins.
    pub fn set() -> Result<Self> {
        system::load_modules(MODULES)?;
        let device = Device::new(Shape::Remote)?;
        let node = device.node("event")?;
        let mut tasks = SLEEPERS.map(Task::sleeper).into_iter().collect::<Result<Vec<_>>>()?;
        for by in HOGS {
            tasks.push(Task::hog(by)?);
        }
        for by in READERS {
            tasks.push(Task::bearer_of(by, &node, CHILD_S)?);
        }
        tasks.push(Task::napper(REALTIME, REALTIME_MS.0, REALTIME_MS.1)?);
        Ok(Self { tasks, _hand: Hand::of(device) })
    }

    /// Processes that live as long.
    pub fn pids(&self) -> Vec<u32> {
        self.tasks.iter().map(Task::pid).collect()
    }
}

/// Presses keys until it is dropped.
struct Hand {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Hand {
    fn of(mut device: Device) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                if let Err(error) = device.touch() {
                    return eprintln!("no more keys: {error:#}");
                }
                clock::sleep_ms(KEY_EACH_MS);
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
