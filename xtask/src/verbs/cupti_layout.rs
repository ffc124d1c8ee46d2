//! `cargo xtask cupti-layout`: compares the committed layout of CUPTI's records with CUPTI's headers.
//!
//! ```text
//! <cache>/cupti/<version>/include/cupti_activity.h …     from the wheel of CUPTI
//! <cache>/cupti/runtime-<version>/include/cuda.h …       from the wheel of the CUDA runtime of the same major release
//! ```

use anyhow::Result;

use crate::cache::Cache;
use crate::cargo;
use crate::packages::{self, LIBCLANG, PYTHON};
use crate::process::{heading, run as run_command};
use crate::python::Python;

/// Compare the committed layout of CUPTI's records with CUPTI's headers (needs libclang)
///
/// The file is crates/cupti-sys/tests/layout.json (where the fields of CUPTI's records are). Without --headers the
/// headers of the releases in that file are fetched from the Python package index (some 13 MB each, once; only headers
/// are kept) into the cache. They are NVIDIA's and are never committed; the numbers are.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Compare with these headers instead; may be repeated
    ///
    /// FOLDERs have cupti_activity.h and cuda.h, RELEASE is the name in the file (12.9.79).
    #[arg(long, value_name = "RELEASE=FOLDER[,FOLDER...]")]
    headers: Vec<String>,
    /// Update the file from the headers
    #[arg(long)]
    write: bool,
    /// Without a network, compare with what is in the cache, and say what is not
    #[arg(long)]
    as_available: bool,
}

const FIXTURE: &str = "crates/cupti-sys/tests/layout.json";

/// A published set of headers: version, package, and the package of the CUDA runtime that has `cuda.h`; any release
/// with the same major number will do.
type Published = (&'static str, &'static str, (&'static str, &'static str));

const RUNTIME_11: (&str, &str) = ("nvidia-cuda-runtime-cu11", "11.8.89");
const RUNTIME_12: (&str, &str) = ("nvidia-cuda-runtime-cu12", "12.9.79");
const RUNTIME_13: (&str, &str) = ("nvidia-cuda-runtime", "13.0.96");

/// One release for each size of a kernel's record, and the last one before calls could be selected individually.
const RELEASES: [Published; 8] = [
    ("11.8.87", "nvidia-cuda-cupti-cu11", RUNTIME_11),
    ("12.0.146", "nvidia-cuda-cupti-cu12", RUNTIME_12),
    ("12.4.127", "nvidia-cuda-cupti-cu12", RUNTIME_12),
    ("12.9.79", "nvidia-cuda-cupti-cu12", RUNTIME_12),
    ("13.0.85", "nvidia-cuda-cupti", RUNTIME_13),
    ("13.1.115", "nvidia-cuda-cupti", RUNTIME_13),
    ("13.3.75", "nvidia-cuda-cupti", RUNTIME_13),
    ("13.5.25", "nvidia-cuda-cupti", RUNTIME_13),
];

pub(crate) fn run(args: &Args) -> Result<()> {
    packages::ensure(if args.headers.is_empty() { &[LIBCLANG, PYTHON] } else { &[LIBCLANG] })?;
    let given = if args.headers.is_empty() { fetch_all(args.as_available)? } else { args.headers.clone() };
    heading("layout of CUPTI's records");
    if given.is_empty() {
        println!("   no headers are available: NOTHING was compared");
        return Ok(());
    }
    let mut command = cargo::command("run");
    command.args(["--quiet", "--package", "cupti-sys", "--example", "layout", "--"]).arg(cargo::root().join(FIXTURE));
    if args.write {
        command.arg("--write");
    }
    run_command(command.args(&given)).map_err(|error| {
        anyhow::anyhow!(
            "{error}\nIf the headers are right, --write puts their numbers into {FIXTURE}, and its test says what in \
             crates/cupti-sys no longer holds."
        )
    })
}

/// `RELEASE=FOLDER,FOLDER` for every release that is available.
fn fetch_all(as_available: bool) -> Result<Vec<String>> {
    let cache = Cache::open()?;
    let python = Python::ensure(&cache)?;
    heading("CUPTI's headers");
    let mut all = Vec::new();
    for (version, package, runtime) in &RELEASES {
        let both = headers(&cache, &python, package, version, version).and_then(|own| {
            let runtimes = headers(&cache, &python, runtime.0, runtime.1, &format!("runtime-{}", runtime.1))?;
            Ok(format!("{version}={own},{runtimes}"))
        });
        match both {
            Ok(folders) => all.push(folders),
            Err(error) if !as_available => return Err(error),
            Err(error) => println!("   {error:#}: {version} is NOT compared"),
        }
    }
    Ok(all)
}

/// The folder with a package's headers, which are fetched if they are not in the cache.
fn headers(cache: &Cache, python: &Python, package: &str, version: &str, name: &str) -> Result<String> {
    let folder = cache.folder("cupti").join(name).join("include");
    if !folder.is_dir() {
        println!("   fetching {package} {version}");
        python.fetch(cache, &format!("{package}=={version}"), "unpack_headers.py", &[], &folder)?;
    }
    Ok(folder.display().to_string())
}
