//! `cargo xtask demo`: from a fresh clone to a checked archive of a real NCCL run.

mod archive;
mod job;
mod request;

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::cache::{Cache, remove_folder};
use crate::cargo::{self, Profile};
use crate::failure::{Context as _, Failure, Result};
use crate::gpu;
use crate::nccl;
use crate::packages::{self, COMPILER, OTF2, OTF2_TOOLS, PYTHON};
use crate::python::Python;
use crate::report;

use job::{Devices, Job, Tools};
use request::{HELP, Request};

/// Left in a demo's folder, so that a folder that is somebody's own is never emptied.
const MARK: &str = ".nccl-otf2-demo";

/// Runs the command.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let Some(request) = Request::parse(words)? else {
        print!("{HELP}");
        return Ok(());
    };
    let devices = Devices::choose(&request)?;
    packages::ensure(&[OTF2, OTF2_TOOLS, PYTHON, COMPILER])?;
    let cache = Cache::open()?;
    let python = Python::ensure(&cache)?;
    let libraries = libraries(&request, &devices, &cache, &python)?;
    drop(cache);

    report::heading("build");
    cargo::build(
        Profile::Release,
        &["nccl-profiler-otf2", "nccl-otf2", "nccl-host", "fake-gpu"],
    )?;
    let tools = Tools::built()?;

    for (version, library) in &libraries {
        let folder = match &request.out {
            Some(out) if libraries.len() == 1 => out.clone(),
            Some(out) => out.join(version),
            None => cargo::target()?.join("demo").join(version),
        };
        let job = Job {
            version,
            library,
            devices: &devices,
            folder: prepare(&folder)?,
            keep: request.keep,
        };
        demonstrate(&job, &tools, &python)?;
    }
    Ok(())
}

/// The NCCL libraries to run, each with the name of its folder.
fn libraries(
    request: &Request,
    devices: &Devices,
    cache: &Cache,
    python: &Python,
) -> Result<Vec<(String, PathBuf)>> {
    if request.versions.is_empty() {
        let installed = if devices.are_real() {
            gpu::nccl()
        } else {
            None
        };
        if let Some(library) = installed {
            report::heading("NCCL");
            report::fact(&format!(
                "as installed on this machine: {}",
                library.display()
            ));
            return Ok(vec![("installed".to_owned(), library)]);
        }
        return Ok(vec![(
            nccl::NEWEST.to_owned(),
            nccl::library(cache, python, nccl::NEWEST)?,
        )]);
    }
    request
        .versions
        .iter()
        .map(|version| Ok((version.clone(), nccl::library(cache, python, version)?)))
        .collect()
}

fn demonstrate(job: &Job<'_>, tools: &Tools, python: &Python) -> Result<()> {
    report::heading(&format!("run NCCL {}", job.version));
    report::fact(&job.devices.describe());
    let started = Instant::now();
    job.run(tools)?;
    report::fact(&format!("done in {}", report::seconds(started.elapsed())));

    report::heading("archive");
    let anchor = job.anchor()?;
    archive::check(tools, &anchor)?;

    report::heading("what NCCL was asked to do, and what is in the archive");
    archive::compare(python, &anchor, &job.log_prefix())?;

    report::heading("open it");
    let anchor = anchor.display();
    report::fact(&format!("vampir {anchor}"));
    report::fact(&format!(
        "otf2-print {anchor} | less          (a first look without a viewer)"
    ));
    report::fact(&format!("{} info {anchor}", tools.nccl_otf2.display()));
    Ok(())
}

/// An empty folder for a demo; one of an earlier demo is emptied, anybody else's is left alone.
fn prepare(folder: &Path) -> Result<PathBuf> {
    let folder = std::path::absolute(folder)
        .or_fail(|| format!("understand the path {}", folder.display()))?;
    let used = folder
        .read_dir()
        .is_ok_and(|mut entries| entries.next().is_some());
    if used && !folder.join(MARK).exists() {
        return Err(Failure::usage(format!(
            "{} is not empty and is no earlier demo's: name another folder with --out",
            folder.display()
        )));
    }
    remove_folder(&folder)?;
    std::fs::create_dir_all(&folder).or_fail(|| format!("create {}", folder.display()))?;
    std::fs::write(folder.join(MARK), "").or_fail(|| format!("write in {}", folder.display()))?;
    Ok(folder)
}
