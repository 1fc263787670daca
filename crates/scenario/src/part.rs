//! Parts: what of a scenario is measured alone, and together with all other parts.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Load, MeterKind, Scenario};

/// Part names that other metrics' names begin with.
const TAKEN: [&str; 2] = ["display", "capture"];

/// An application with its meter. What the meter finds is called `NAME_ms`, how much of it there was `NAME_completed`, and
/// the application's share of the CPU `NAME_cpu_pct`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// With which its metrics' names begin.
    pub name: String,
    /// The application.
    pub app: String,
}

impl Scenario {
    /// The part that an application belongs to.
    #[must_use]
    pub fn part_of(&self, app: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.app == app)
    }

    /// What is measured one after another at `load`: with parts, at any load but `all`, each part without the others.
    #[must_use]
    pub fn turns(&self, load: Load) -> Vec<Self> {
        if self.parts.is_empty() || load == Load::All {
            return vec![self.clone()];
        }
        self.parts.iter().map(|part| self.alone(part)).collect()
    }

    /// Without the other parts' applications, and whoever types there or observes them.
    fn alone(&self, part: &Part) -> Self {
        let mut turn = self.clone();
        let stays = |app: &str| app == part.app || self.part_of(app).is_none();
        turn.apps.retain(|app| stays(&app.id));
        turn.typists.retain(|typist| stays(&typist.into));
        turn.meters.retain(|meter| stays(&meter.app));
        turn.parts.retain(|other| other == part);
        turn
    }

    /// Whether its parts can be run at `load`.
    pub(crate) fn parts_accept(&self, load: Load) -> Result<(), String> {
        match (self.parts.is_empty(), load) {
            (true, Load::All) => Err(format!("load all: scenario \"{}\" has no parts", self.name)),
            (false, Load::Hogs(_) | Load::IdleHogs(_) | Load::Build(_) | Load::Users(_)) => Err(format!(
                "load {load}: the parts of scenario \"{}\" are each other's load: allowed is none or all",
                self.name
            )),
            _ => Ok(()),
        }
    }

    pub(crate) fn check_parts(&self) -> Result<(), String> {
        const MEASURED: [MeterKind; 3] = [MeterKind::KeyToScreen, MeterKind::Video, MeterKind::Samples];
        let (mut names, mut apps) = (BTreeSet::new(), BTreeSet::new());
        for Part { name, app } in &self.parts {
            let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            if !is_name || TAKEN.contains(&name.as_str()) {
                return Err(format!(
                    "part \"{name}\": a name is made of small letters and \"_\", and is none of {}",
                    TAKEN.join(", ")
                ));
            }
            if !names.insert(name) {
                return Err(format!("two parts are called \"{name}\""));
            }
            if self.app(app).is_none() {
                return Err(format!("part \"{name}\": application \"{app}\" is not defined"));
            }
            if !apps.insert(app) {
                return Err(format!("part \"{name}\": application \"{app}\" is in another part already"));
            }
            let meters = self.meters.iter().filter(|meter| meter.app == *app && MEASURED.contains(&meter.kind)).count();
            if meters != 1 {
                return Err(format!(
                    "part \"{name}\": application \"{app}\" has {meters} meters of kind key-to-screen, video or samples: \
                     allowed is one"
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn check_mixes(&self) -> Result<(), String> {
        let mut names = BTreeSet::new();
        for mix in &self.mixes {
            mix.check(&self.apps)?;
            if !names.insert(&mix.name) {
                return Err(format!("two mixes are called \"{}\"", mix.name));
            }
        }
        Ok(())
    }
}
