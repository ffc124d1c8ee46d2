//! `cargo xtask scale`: measures making and reading the archive of a large job.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::cargo::{self, Profile};
use crate::process;

/// Make the archive of a synthetic job of any size, and measure it
///
///   cargo xtask scale                                       64 processes, from journals to the archive
///   cargo xtask scale --parts 100000                        many processes with few events, from parts
///   cargo xtask scale --parts 1000 --channels 16 --read     what the tool takes to read such an archive
///   cargo xtask scale --parts 16 --alltoall --read          each rank with each other
///
/// Says how long writing the archive took and how much memory, and how many files and bytes it has; with --read also
/// what `info`, `check`, `stats` and `report` take. What is made is removed. The figures are in docs/PERFORMANCE.md.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Unify N parts of a few operations each
    #[arg(long, value_name = "N", conflicts_with_all = ["ranks", "events"], value_parser = clap::value_parser!(u32).range(1..))]
    parts: Option<u32>,
    /// Instead: finalize the journals of N processes
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,
    /// NCCL events of each process
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    events: u32,
    /// Operations of each part
    #[arg(long, value_name = "N", default_value_t = 8, requires = "parts", value_parser = clap::value_parser!(u32).range(1..))]
    operations: u32,
    /// Channels of each operation
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    channels: u8,
    /// Communicators of each rank, in this order: all, tensor, pipeline, data
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=4))]
    communicators: u8,
    /// Operations are all-to-alls of all ranks, not all-reduces of the communicators in turn
    #[arg(long)]
    alltoall: bool,
    /// Also read the archive with the tool
    #[arg(long)]
    read: bool,
    /// Directory with enough space
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    // Built together with the plugin and the tool, so that an earlier `cargo build --release` is reused.
    cargo::build(Profile::Release, &["nccl-profiler-otf2", "nccl-otf2", "scale"])?;
    let (ranks, number) = match args.parts {
        Some(parts) => (parts, args.operations),
        None => (args.ranks, args.events),
    };
    let folder = tempfile::tempdir_in(&args.dir).context("make a folder")?;
    let job = folder.path();
    let make = |verb: &str| {
        let kind = if args.alltoall { "all-to-all" } else { "all-reduce" };
        let numbers = [ranks, args.communicators.into(), args.channels.into()].map(|number| number.to_string());
        let program = cargo::built(Profile::Release, "scale")?;
        process::heading("scale");
        process::run(Command::new(program).arg(verb).args(numbers).arg(kind).arg(number.to_string()).arg(job))
    };
    match args.parts {
        Some(_) => make("parts")?,
        None if args.read => make("record")?,
        None => return make("journals"),
    }
    let tool = cargo::built(Profile::Release, "nccl-otf2")?;
    let verb = |verb: &[&str]| -> Result<()> {
        let took = measured(Command::new(&tool).args(verb).arg(job))?;
        println!("   {:<14} {took}", verb.join(" "));
        Ok(())
    };
    if args.parts.is_none() {
        verb(&["finalize"])?;
    }
    println!("   {}", size_of(&job.join("traces"))?);
    if args.read {
        process::heading("read");
        [&["info", "--json"][..], &["check"], &["hang"], &["stats", "--json"], &["report"]]
            .into_iter()
            .try_for_each(verb)?;
        let page = fs::metadata(job.join("report.html")).context("look at the page")?;
        println!("   the page has {:.1} MB", page.len() as f64 / 1e6);
    }
    Ok(())
}

fn size_of(folder: &Path) -> Result<String> {
    let (mut files, mut bytes, mut blocks) = (0_u64, 0, 0);
    for file in fs::read_dir(folder).context("read the archive's folder")? {
        let file = file?.metadata()?;
        (files, bytes, blocks) = (files + 1, bytes + file.len(), blocks + file.blocks());
    }
    let on_disk = 512.0 * blocks as f64 / 1e6;
    Ok(format!("{files} files of {:.1} MB in the archive's folder, {on_disk:.1} MB on the disk", bytes as f64 / 1e6))
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
