//! Where things lie: the project's tree and the laboratory's part of `target/`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Paths of the project.
#[derive(Debug, Clone)]
pub struct Layout {
    root: PathBuf,
    target: PathBuf,
}

impl Layout {
    /// Finds the project above the working directory, or else above the running program.
    ///
    /// # Errors
    /// When neither lies inside the project.
    pub fn find() -> Result<Self> {
        let here = std::env::current_dir().context("find the working directory")?;
        let program = std::env::current_exe().unwrap_or_default();
        for start in [here.as_path(), program.as_path()] {
            if let Some(root) = start.ancestors().find(|dir| is_project(dir)) {
                return Ok(Self::at(root));
            }
        }
        bail!(
            "{} is not inside the project: run appease-lab in its directory (the one with Cargo.toml and scenarios/)",
            here.display()
        )
    }

    /// The project at `root`; `CARGO_TARGET_DIR` is honoured.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir));
        Self::with_target(root, target)
    }

    /// The project at `root`, built in `target` whatever the environment says.
    #[must_use]
    pub fn with_target(root: &Path, target: PathBuf) -> Self {
        Self { root: root.to_owned(), target }
    }

    /// `bench/`.
    #[must_use]
    pub fn bench(&self) -> PathBuf {
        self.root.join("bench")
    }

    /// The cells of the league that appease may lose.
    #[must_use]
    pub fn exceptions(&self) -> PathBuf {
        self.root.join("docs/results/exceptions.toml")
    }

    /// `scenarios/`.
    #[must_use]
    pub fn scenarios(&self) -> PathBuf {
        self.root.join("scenarios")
    }

    /// `target/lab/NAME`.
    #[must_use]
    pub fn lab(&self, name: &str) -> PathBuf {
        self.target.join("lab").join(name)
    }

    /// A program of this project, as cargo's release profile builds it.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.target.join("release").join(name)
    }

    /// A peer scheduler, as `appease-lab peers` installs it.
    #[must_use]
    pub fn peer(&self, name: &str) -> PathBuf {
        self.lab("peers/bin").join(name)
    }
}

fn is_project(dir: &Path) -> bool {
    dir.join("crates/lab").is_dir() && dir.join("scenarios").is_dir()
}
