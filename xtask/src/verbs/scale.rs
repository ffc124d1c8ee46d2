//! `cargo xtask scale`: measures making and reading the archive of a large job.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::cargo::{self, Profile};
use crate::process;

/// Make the archive of a synthetic job as large as one likes, and measure it
///
/// Says how long writing the archive took and how much memory; with --read also what `info`, `stats`, `report` and
/// `check` take to read it. What is made is removed. The figures are in docs/PERFORMANCE.md.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Unify N parts of four communicators each: all, tensor, pipeline, data
    #[arg(long, value_name = "N", conflicts_with_all = ["ranks", "events", "read"], value_parser = clap::value_parser!(u32).range(1..))]
    parts: Option<u32>,
    /// Instead: finalize the journals of N processes
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,
    /// NCCL events of each process
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    events: u32,
    /// Read the archive with the tool, too
    #[arg(long)]
    read: bool,
    /// Where there is room
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    // Built together with the plugin and the tool, so that an earlier `cargo build --release` is reused.
    cargo::build(Profile::Release, &["nccl-profiler-otf2", "nccl-otf2", "scale"])?;
    let (ranks, events) = (args.ranks.to_string(), args.events.to_string());
    match args.parts {
        _ if args.read => read(&ranks, &events, &args.dir),
        Some(parts) => scale(&["parts", &parts.to_string()], &args.dir),
        None => scale(&["journals", &ranks, &events], &args.dir),
    }
}

fn scale(words: &[&str], folder: &Path) -> Result<()> {
    let program = cargo::built(Profile::Release, "scale")?;
    process::heading("scale");
    process::run(Command::new(program).args(words).arg(folder))
}

/// Makes the archive of a job, and runs each verb that reads a whole archive.
fn read(ranks: &str, events: &str, folder: &Path) -> Result<()> {
    let tool = cargo::built(Profile::Release, "nccl-otf2")?;
    let folder = tempfile::tempdir_in(folder).context("make a folder")?;
    let job = folder.path();
    scale(&["record", ranks, events], job)?;
    process::heading("read");
    for verb in [&["finalize"][..], &["info", "--json"], &["stats", "--json"], &["report"], &["check"]] {
        let mut command = Command::new(&tool);
        let took = measured(command.args(verb).arg(job))?;
        println!("   {:<14} {took}", verb.join(" "));
    }
    let page = fs::metadata(job.join("report.html")).context("look at the page")?;
    println!("   the page has {:.1} MB", page.len() as f64 / 1e6);
    Ok(())
}

fn measured(command: &mut Command) -> Result<String> {
    let begin = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().context("start the tool")?;
    let mut peak = None;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        peak = peak_of(child.id()).or(peak);
        sleep(Duration::from_millis(20));
    };
    // `check` has remarks on a job whose times are made up.
    ensure!(status.code().is_some_and(|code| code < 2), "{command:?} ended with {status}");
    Ok(format!("{:6.1} s, peak {}", begin.elapsed().as_secs_f64(), peak.as_deref().unwrap_or("unknown")))
}

fn peak_of(pid: u32) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(peak.trim().to_owned())
}
