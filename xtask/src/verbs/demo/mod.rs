//! `cargo xtask demo`: from a fresh clone to a checked archive of a real NCCL run.

mod job;

use std::path::{Path, PathBuf};
use std::process::Command;

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
    let (python, fetched) = nccl::releases(&versions, Python::ensure_reader)?;
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
        let log = folder.join("log");
        let job = Job { version, library, devices: &devices, folder, keep: args.keep, log };
        demonstrate(&job, &tools, &python)?;
    }
    Ok(())
}

fn demonstrate(job: &Job<'_>, tools: &Tools, python: &Python) -> Result<()> {
    heading(&format!("record NCCL {}", job.version));
    println!("   {}", job.devices.describe());
    println!("   what the commands print is in {}", near(&job.log));
    job.run(tools)?;

    heading("is the archive right?");
    let anchor = job.anchor()?;
    let lines = otf2_print(&anchor)?.lines().count();
    println!("   otf2-print reads it without a warning: {lines} lines");
    let checked = process::logged(Command::new(&tools.nccl_otf2).arg("check").arg(&anchor), &job.log)?;
    let verdict = checked.after(&format!("{}: ", anchor.display())).context("check has no verdict")?;
    println!("   nccl-otf2 check: {verdict}");
    // Compared with the host program's own log; an independent script reads both.
    let compared =
        process::logged(python.script("compare_counts.py").args([&anchor, &job.log_prefix()]), &job.log)?.out;
    let numbers = compared.lines().filter(|line| line.split_whitespace().any(|word| word.starts_with("ok"))).count();
    println!("   {numbers} counts agree with the program's own log, as far as this release of NCCL reports them");

    let slow = if job.can_slow_a_pair() { ", and a network that is slow from rank 0 to rank 1" } else { "" };
    heading(&format!("record a job with a late rank{slow}"));
    job.run_with_causes(tools)?;
    let causes = job.causes_folder();
    let page = causes.join("report.html");
    let found = job.report(tools, &page)?;

    heading("found");
    println!("{}\n", wrapped(&found));
    if job.can_slow_a_pair() {
        let both = "Put into the job: a late rank, and a link that is slow from rank 0 to rank 1. The first line has \
                     what costs most; `stats` names what costs 2 % or more.";
        println!("{}\n", wrapped(both));
    }
    let (tool, causes) = (near(&tools.nccl_otf2), near(&causes));
    println!("   page: {}", near(&page));
    println!("   next: {tool} stats {causes}     all causes, and the tables");
    println!("         {tool} export --format perfetto {causes} -o {causes}/demo.pftrace");
    println!("         {tool} run --help     how to record a program of your own");
    Ok(())
}

/// A text in lines that fit a terminal.
fn wrapped(text: &str) -> String {
    let (mut lines, mut line) = (String::new(), String::from("  "));
    for word in text.split(' ') {
        if line.len() + 1 + word.len() > 100 {
            lines.push_str(&line);
            lines.push('\n');
            line = String::from("  ");
        }
        line.push(' ');
        line.push_str(word);
    }
    lines + &line
}

/// A path as a person here would write it.
fn near(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).display().to_string()
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
