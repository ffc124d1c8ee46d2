//! `cargo xtask demo`: from a fresh clone to a checked archive of a real NCCL run.

mod job;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use crate::cache::{self, Cache};
use crate::cargo::{self, Profile};
use crate::error::missing;
use crate::gpu;
use crate::nccl;
use crate::packages::{self, COMPILER, OTF2, OTF2_TOOLS, PYTHON};
use crate::process::{self, heading};
use crate::python::Python;

use job::{Devices, Job, Tools};

/// Record a real NCCL (on emulated devices where there is no GPU), write the archive, check and count it
///
/// Four ranks run in two processes with two threads each; on a machine with GPUs, one rank on each of at most four.
/// Without a GPU NCCL runs on the emulated devices of tests/doubles/fake-gpu: everything NCCL does on the host and in
/// the network is real, the durations of kernels are not. The programs are not optimized, so that they are built soon.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The published release to run (default 2.32.3, or with GPUs the NCCL that is installed)
    #[arg(long = "nccl", value_name = "VERSION")]
    versions: Vec<String>,
    /// Emulated devices, even where there are GPUs
    #[arg(long, conflicts_with = "real")]
    fake: bool,
    /// This machine's GPUs, even if there is only one
    #[arg(long)]
    real: bool,
    /// Where to put it (default target/demo/VERSION; with several versions DIR/VERSION)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Keep the journals from which the archive was written
    #[arg(long)]
    keep: bool,
}

/// Left in a demo's folder, so that a folder that is somebody's own is never emptied.
const MARK: &str = ".nccl-otf2-demo";

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let devices = Devices::choose(args.fake, args.real)?;
    packages::ensure(&[OTF2, OTF2_TOOLS, PYTHON, COMPILER])?;
    let cache = Cache::open()?;
    let python = Python::ensure(&cache)?;
    let libraries = libraries(&args.versions, &devices, &cache, &python)?;
    drop(cache);
    cargo::build(Profile::Debug, &["nccl-profiler-otf2", "nccl-otf2", "nccl-host", "fake-gpu"])?;
    let tools = Tools::built()?;
    for (version, library) in &libraries {
        let folder = match &args.out {
            Some(out) if libraries.len() == 1 => out.clone(),
            Some(out) => out.join(version),
            None => cargo::target()?.join("demo").join(version),
        };
        let folder = prepare(&folder)?;
        let job = Job { version, library, devices: &devices, folder, keep: args.keep };
        demonstrate(&job, &tools, &python)?;
    }
    Ok(())
}

/// The NCCL libraries to run, each with the name of its folder.
fn libraries(versions: &[String], devices: &Devices, cache: &Cache, python: &Python) -> Result<Vec<(String, PathBuf)>> {
    let mut wanted: Vec<&str> = Vec::new();
    for version in versions {
        if !wanted.contains(&version.as_str()) {
            wanted.push(version);
        }
    }
    if wanted.is_empty() {
        if let Some(library) = gpu::nccl().filter(|_| devices.are_real()) {
            println!("   NCCL as installed on this machine: {}", library.display());
            return Ok(vec![("installed".to_owned(), library)]);
        }
        wanted.push(nccl::NEWEST);
    }
    let library = |version: &str| Ok((version.to_owned(), nccl::library(cache, python, version)?));
    wanted.into_iter().map(library).collect()
}

fn demonstrate(job: &Job<'_>, tools: &Tools, python: &Python) -> Result<()> {
    heading(&format!("run NCCL {}", job.version));
    println!("   {}", job.devices.describe());
    let started = Instant::now();
    job.run(tools)?;
    println!("   done in {:.1} s", started.elapsed().as_secs_f64());

    heading("archive");
    let anchor = job.anchor()?;
    check(tools, &anchor)?;

    heading("what NCCL was asked to do, and what is in the archive");
    // Compared with the host program's own log; neither is read by our code.
    process::run(python.script("compare_counts.py").args([&anchor, &job.log_prefix()]))?;

    let causes =
        if job.can_slow_a_pair() { "a rank that comes late and a slow pair" } else { "a rank that comes late" };
    heading(&format!("{causes}, and what the report says"));
    let page = job.report_of_causes(tools)?;

    heading("open it");
    println!("   a browser on {}", page.display());
    let anchor = anchor.display();
    println!("   vampir {anchor}");
    println!("   otf2-print {anchor} | less          (a first look without a viewer)");
    println!("   {} info {anchor}", tools.nccl_otf2.display());
    Ok(())
}

/// `otf2-print` must read it all without a word on stderr, and our own `check` must find nothing.
fn check(tools: &Tools, anchor: &Path) -> Result<()> {
    let said = process::capture(Command::new("otf2-print").arg(anchor))?;
    let (status, complaints) = (said.status, said.err.trim());
    let fine = status.success() && complaints.is_empty();
    ensure!(fine, "otf2-print {} ended with {status}:\n{complaints}", anchor.display());
    println!("   otf2-print reads it without a warning ({} lines)", said.out.lines().count());
    process::run(Command::new(&tools.nccl_otf2).arg("check").arg(anchor))
}

/// An empty folder for a demo; one of an earlier demo is emptied, anybody else's is left alone.
fn prepare(folder: &Path) -> Result<PathBuf> {
    let folder = std::path::absolute(folder).with_context(|| format!("understand {}", folder.display()))?;
    let used = cache::list(&folder).is_ok_and(|files| !files.is_empty());
    if used && !folder.join(MARK).exists() {
        return Err(missing(format!(
            "{} is not empty and is no earlier demo's: name another folder with --out",
            folder.display()
        )));
    }
    cache::remove(&folder)?;
    cache::create(&folder)?;
    cache::write(&folder.join(MARK), "")?;
    Ok(folder)
}
