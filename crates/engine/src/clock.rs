//! By what the clock of CPUs is asked for: whether anything would follow, and whether power is to be saved.
//!
//! Of cpufreq's governors schedutil alone goes by what a scheduler asks for. It is looked for when the scheduler is attached:
//! if it is chosen later, the clock is the highest under schedutil, as under any sched_ext scheduler that asks for nothing.

use std::{fs, path::Path};

use tracing::{debug, warn};

use crate::seams::Clock;

/// Below the root: a directory for each group of CPUs that share a clock.
const POLICIES: &str = "sys/devices/system/cpu/cpufreq";
/// The governor that asks the scheduler.
const GOVERNOR: &str = "schedutil";

/// When the clock of CPUs is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClockWhen {
    /// Where a governor goes by it.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never: governors have the highest clock.
    Never,
}

/// What is asked for on this machine.
pub(crate) fn choose(when: ClockWhen, power_save: bool, root: &Path) -> Clock {
    let is_followed = match when {
        ClockWhen::Auto => is_followed(root),
        ClockWhen::Always => true,
        ClockWhen::Never => false,
    };
    match (is_followed, power_save) {
        (true, true) => Clock::Saves,
        (true, false) => {
            debug!("the clock of CPUs is asked for by what they run");
            Clock::ByUse
        }
        (false, true) => {
            warn!(
                "--power-save: no CPU's clock goes by what a scheduler asks for, for none has the governor {GOVERNOR} (or --clock never was \
                 said): what nobody waits for is kept on few CPUs, and nothing else is saved"
            );
            Clock::Left
        }
        (false, false) => Clock::Left,
    }
}

/// Whether some CPU has the governor that asks.
fn is_followed(root: &Path) -> bool {
    let governor = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("scaling_governor"));
    let policies = fs::read_dir(root.join(POLICIES)).into_iter().flatten().flatten();
    policies.flat_map(governor).any(|name| name.trim() == GOVERNOR)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{ClockWhen, POLICIES, choose};
    use crate::seams::Clock;

    #[test]
    fn a_clock_is_asked_for_where_a_governor_goes_by_it() -> std::io::Result<()> {
        let root = tempfile::tempdir()?;
        let chosen = |when, power_save| choose(when, power_save, root.path());
        assert_eq!(chosen(ClockWhen::Auto, false), Clock::Left, "no cpufreq");
        assert_eq!(chosen(ClockWhen::Auto, true), Clock::Left);
        let governors = |names: [&str; 2]| {
            for (number, name) in names.iter().enumerate() {
                let dir = root.path().join(POLICIES).join(format!("policy{number}"));
                fs::create_dir_all(&dir)?;
                fs::write(dir.join("scaling_governor"), format!("{name}\n"))?;
            }
            std::io::Result::Ok(())
        };
        // A file of its own beside the groups is no group.
        fs::create_dir_all(root.path().join(POLICIES))?;
        fs::write(root.path().join(POLICIES).join("boost"), "1\n")?;
        governors(["performance", "powersave"])?;
        assert_eq!(chosen(ClockWhen::Auto, false), Clock::Left);
        assert_eq!(chosen(ClockWhen::Always, false), Clock::ByUse);
        governors(["performance", "schedutil"])?;
        assert_eq!(chosen(ClockWhen::Auto, false), Clock::ByUse);
        assert_eq!(chosen(ClockWhen::Auto, true), Clock::Saves);
        assert_eq!(chosen(ClockWhen::Never, false), Clock::Left);
        Ok(())
    }
}
