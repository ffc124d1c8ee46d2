//! `cargo xtask cupti-layout`: the committed layout of CUPTI's records, held against CUPTI's headers.
//!
//! ```text
//! <cache>/cupti/<version>/include/cupti_activity.h …     from the wheel of CUPTI
//! <cache>/cupti/runtime-<version>/include/cuda.h …       from the wheel of the CUDA runtime of the same major release
//! ```

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::Cache;
use crate::cargo;
use crate::failure::{Context as _, Failure, Result};
use crate::options::{Options, unknown};
use crate::packages::{self, LIBCLANG, PYTHON};
use crate::process::run as run_command;
use crate::python::Python;
use crate::report;

const HELP: &str = "\
Compares crates/cupti-sys/tests/layout.json (where the fields of CUPTI's records are) with CUPTI's headers.

Usage: cargo xtask cupti-layout [OPTIONS]

Without --headers the headers of the releases in that file are fetched from the Python package index (some 13 MB
each, once; only headers are kept) into the cache. They are NVIDIA's and are never committed; the numbers are.

Options:
  --headers RELEASE=FOLDER[,FOLDER...]  Compare with these headers instead; may be repeated. FOLDERs have
                                        cupti_activity.h and cuda.h, RELEASE is the name in the file (12.9.79)
  --write                               Put what the headers say into the file
  --as-available                        Without a network, compare with what is in the cache, and say what is not
";

const FIXTURE: &str = "crates/cupti-sys/tests/layout.json";

/// A published set of headers.
struct Published {
    version: &'static str,
    package: &'static str,
    /// The CUDA runtime has `cuda.h`: any release of the same major number does.
    runtime: (&'static str, &'static str),
}

const RUNTIME_11: (&str, &str) = ("nvidia-cuda-runtime-cu11", "11.8.89");
const RUNTIME_12: (&str, &str) = ("nvidia-cuda-runtime-cu12", "12.9.79");
const RUNTIME_13: (&str, &str) = ("nvidia-cuda-runtime", "13.0.96");

const fn published(
    version: &'static str,
    package: &'static str,
    runtime: (&'static str, &'static str),
) -> Published {
    Published {
        version,
        package,
        runtime,
    }
}

/// One release for each size that a kernel's record has had, and the last one before calls could be chosen singly.
const RELEASES: [Published; 8] = [
    published("11.8.87", "nvidia-cuda-cupti-cu11", RUNTIME_11),
    published("12.0.146", "nvidia-cuda-cupti-cu12", RUNTIME_12),
    published("12.4.127", "nvidia-cuda-cupti-cu12", RUNTIME_12),
    published("12.9.79", "nvidia-cuda-cupti-cu12", RUNTIME_12),
    published("13.0.85", "nvidia-cuda-cupti", RUNTIME_13),
    published("13.1.115", "nvidia-cuda-cupti", RUNTIME_13),
    published("13.3.75", "nvidia-cuda-cupti", RUNTIME_13),
    published("13.5.25", "nvidia-cuda-cupti", RUNTIME_13),
];

/// Runs the command.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let mut options = Options::new(words);
    let (mut write, mut as_available, mut given) = (false, false, Vec::new());
    while let Some(word) = options.next()? {
        match word {
            "--headers" => given.push(options.value("--headers")?.to_owned()),
            "--write" => write = true,
            "--as-available" => as_available = true,
            "-h" | "--help" => {
                print!("{HELP}");
                return Ok(());
            }
            word => return Err(unknown(word, HELP)),
        }
    }
    if given.is_empty() {
        packages::ensure(&[PYTHON, LIBCLANG])?;
        given = fetch_all(as_available)?;
    } else {
        packages::ensure(&[LIBCLANG])?;
    }
    report::heading("layout of CUPTI's records");
    if given.is_empty() {
        report::fact("no headers can be had: NOTHING was compared");
        return Ok(());
    }
    let mut command = cargo::command();
    command
        .args(["run", "--locked", "--quiet", "--package", "cupti-sys"])
        .args(["--example", "layout", "--"])
        .arg(cargo::root().join(FIXTURE));
    if write {
        command.arg("--write");
    }
    run_command(command.args(&given)).map_err(|failure| {
        Failure::wrong(format!(
            "{}\nIf the headers are right, --write puts their numbers into {FIXTURE}, and its test says what in \
             crates/cupti-sys no longer holds.",
            failure.message()
        ))
    })
}

/// `RELEASE=FOLDER,FOLDER` of every release that can be had.
fn fetch_all(as_available: bool) -> Result<Vec<String>> {
    let cache = Cache::open()?;
    let python = Python::ensure(&cache)?;
    report::heading("CUPTI's headers");
    let mut all = Vec::new();
    for release in &RELEASES {
        let (runtime, runtime_version) = release.runtime;
        let folders = [
            (release.package, release.version, release.version.to_owned()),
            (
                runtime,
                runtime_version,
                format!("runtime-{runtime_version}"),
            ),
        ];
        let mut found = Vec::new();
        for (package, version, name) in folders {
            let folder = cache.cupti().join(name).join("include");
            if !folder.is_dir()
                && let Err(failure) = fetch(&cache, &python, package, version, &folder)
            {
                if !as_available {
                    return Err(failure);
                }
                report::fact(&format!(
                    "{package}=={version} cannot be had: {} is NOT compared",
                    release.version
                ));
                break;
            }
            found.push(folder.display().to_string());
        }
        if found.len() == 2 {
            all.push(format!("{}={}", release.version, found.join(",")));
        }
    }
    Ok(all)
}

fn fetch(
    cache: &Cache,
    python: &Python,
    package: &str,
    version: &str,
    folder: &Path,
) -> Result<()> {
    report::fact(&format!("fetching {package}=={version}"));
    let scratch = cache.scratch("cupti")?;
    let wheel = python.download(&format!("{package}=={version}"), scratch.path())?;
    let unpacked: PathBuf = scratch.path().join("include");
    let script = cargo::root().join("xtask/python/unpack_headers.py");
    run_command(
        Command::new(python.interpreter())
            .arg(script)
            .arg(&wheel)
            .arg(&unpacked),
    )?;
    if let Some(parent) = folder.parent() {
        std::fs::create_dir_all(parent).or_fail(|| format!("create {}", parent.display()))?;
    }
    // Renamed when whole, so that what is under this name is whole.
    std::fs::rename(&unpacked, folder).or_fail(|| format!("rename to {}", folder.display()))
}
