//! A Python environment of our own: pip fetches NCCL's published builds, and the `otf2` package is a reader of
//! archives that shares no code with ours.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::{Cache, remove_folder};
use crate::failure::{Context as _, Failure, Result};
use crate::process::{run, succeeds};
use crate::report;

/// The package on the Python index, pinned: what the archive is compared with must not change under a test.
const READER: &str = "otf2==3.2";

/// The interpreter of the environment.
pub(crate) struct Python {
    interpreter: PathBuf,
}

impl Python {
    /// Makes the environment, or takes the one that is there if it works.
    pub(crate) fn ensure(cache: &Cache) -> Result<Self> {
        report::heading("python");
        let venv = cache.venv();
        let python = Self {
            interpreter: venv.join("bin/python"),
        };
        if python.works("import pip") {
            if !python.has_reader() {
                python.install_reader()?;
            }
        } else {
            // Gone, half made, or made by a Python that has since been replaced.
            remove_folder(&venv)?;
            run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
            python.install_reader()?;
        }
        report::fact(&format!("{} with {READER}", python.interpreter.display()));
        Ok(python)
    }

    /// The interpreter's path, for tests that start it themselves.
    pub(crate) fn interpreter(&self) -> &Path {
        &self.interpreter
    }

    /// A command that runs pip.
    pub(crate) fn pip(&self) -> Command {
        let mut command = Command::new(&self.interpreter);
        command.args(["-m", "pip", "--disable-pip-version-check", "--no-input"]);
        command
    }

    /// Has pip fetch the one wheel of a requirement into a folder; pip verifies it against the index's SHA-256.
    pub(crate) fn download(&self, requirement: &str, folder: &Path) -> Result<PathBuf> {
        // No cache of pip's own: such wheels are large, and what is needed of them is kept elsewhere.
        let mut download = self.pip();
        download
            .args([
                "download",
                "--no-deps",
                "--no-cache-dir",
                "--only-binary=:all:",
                "--dest",
            ])
            .arg(folder)
            .arg(requirement);
        run(&mut download)?;
        let entries = std::fs::read_dir(folder).or_fail(|| format!("list {}", folder.display()))?;
        entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
            .ok_or_else(|| Failure::missing(format!("pip left no wheel in {}", folder.display())))
    }

    fn works(&self, code: &str) -> bool {
        succeeds(Command::new(&self.interpreter).args(["-c", code]))
    }

    fn has_reader(&self) -> bool {
        let wanted = READER.rsplit('=').next().unwrap_or_default();
        self.works(&format!(
            "import otf2, importlib.metadata as m; assert m.version('otf2') == '{wanted}'"
        ))
    }

    fn install_reader(&self) -> Result<()> {
        run(self.pip().args(["install", "--quiet", READER])).map_err(|failure| {
            Failure::missing(format!(
                "{}\nThe Python package {READER} is needed to read archives with a reader that is not ours. Without a \
                 network, fetch its wheel elsewhere (pip download {READER}) and run:\n  {} -m pip install FILE",
                failure.message(),
                self.interpreter.display()
            ))
        })
    }
}
