//! `cargo xtask demo`: from a fresh clone to a checked archive of a real NCCL run.

mod job;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::cache;
use crate::cargo::{self, Tools, otf2_print};
use crate::error::missing;
use crate::nccl;
use crate::process::{self, heading};
use crate::python::Python;

use job::{Devices, Job};

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

/// Put into a demo's folder, so that no other folder is ever emptied.
const MARK: &str = ".nccl-otf2-demo";

pub(crate) fn run(args: &Args) -> Result<()> {
    let devices = Devices::choose(args.fake, args.real)?;
    let mut versions: Vec<&str> = args.versions.iter().map(String::as_str).collect();
    versions.sort_unstable();
    versions.dedup();
    let is_needed = devices.are_real() && versions.is_empty();
    let installed = is_needed.then(|| job::installed(&gpu_check::NCCL)).flatten();
    if versions.is_empty() && installed.is_none() {
        versions.push(nccl::NEWEST);
    }
    let (python, fetched) = nccl::releases(&versions)?;
    if let Some(library) = &installed {
        println!("   NCCL as installed on this machine: {}", library.display());
        versions.push("installed");
    }
    let libraries: Vec<(&str, PathBuf)> = versions.into_iter().zip(fetched.into_iter().chain(installed)).collect();
    let tools = Tools::build()?;
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

fn demonstrate(job: &Job<'_>, tools: &Tools, python: &Python) -> Result<()> {
    heading(&format!("run NCCL {}", job.version));
    println!("   {}", job.devices.describe());
    let started = Instant::now();
    job.run(tools)?;
    println!("   done in {:.1} s", started.elapsed().as_secs_f64());

    heading("archive");
    let anchor = job.anchor()?;
    let lines = otf2_print(&anchor)?.lines().count();
    println!("   otf2-print reads it without a warning ({lines} lines)");
    process::run(Command::new(&tools.nccl_otf2).arg("check").arg(&anchor))?;

    heading("what NCCL was asked to do, and what is in the archive");
    // Compared with the host program's own log; an independent script reads both.
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

/// An empty folder for a demo. A folder of an earlier demo is emptied; any other is left alone.
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
