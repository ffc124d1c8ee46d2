//! `plugin-host bench`: times the callbacks of a profiler plugin.
//!
//! The loops neither allocate nor lock: descriptors are made before, samples go into arrays that were made and touched
//! before.

pub(crate) mod mix;
mod report;
mod run;
mod timer;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use mix::Shape;
use report::{Case, Report};
use run::{Length, Options, run as run_case, run_bare};

use crate::interface::Version;
use crate::{Outcome, load};

/// Time the callbacks of a profiler plugin.
///
/// Each thread has a communicator of its own and repeats the callbacks of one all-reduce over the network: API call,
/// launch, plan, collective, proxy operations with steps and states, kernel channels. Only what the plugin's
/// mask asks for is called, as by NCCL; set the mask by the plugin's own environment. Each number of threads
/// runs in a process of its own, and again with an empty plugin for comparison.
///
/// For instruction counts: --no-timing --iterations N does nothing but N operations; run it under
/// callgrind with two N and divide the difference by the printed difference of callbacks.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The plugin's library.
    #[arg(value_name = "PLUGIN.so")]
    plugin: PathBuf,

    /// Call this table instead of the highest that there is.
    #[arg(long, value_name = "1-7", value_parser = Version::parse)]
    table: Option<Version>,

    /// Numbers of threads to run with: 1,2,4 or 1..4.
    #[arg(long, default_value = "1", value_parser = parse_threads)]
    threads: Threads,

    /// How long the timed part takes, and the untimed one again.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,

    /// How many operations each thread does, instead of --seconds.
    #[arg(long)]
    iterations: Option<u64>,

    /// Channels of the all-reduce: each has two proxy operations and a kernel channel.
    #[arg(long, default_value_t = 2)]
    channels: u8,

    /// Steps of a proxy operation.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(i32).range(0..=4096))]
    steps: i32,

    /// Pin thread n to core n.
    #[arg(long)]
    pin: bool,

    /// The folder where the plugin writes (set it by the plugin's own environment): bytes a callback.
    #[arg(long, value_name = "DIR")]
    out_dir: Option<PathBuf>,

    /// The empty plugin; found beside this program when not given.
    #[arg(long, value_name = "EMPTY.so")]
    empty: Option<PathBuf>,

    /// Do not run the empty plugin.
    #[arg(long)]
    no_compare: bool,

    /// Only call, time nothing: for callgrind. Needs --iterations.
    #[arg(long, requires = "iterations")]
    no_timing: bool,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,

    /// Run the one case here and write it to this file as JSON.
    #[arg(long, hide = true)]
    case_to: Option<PathBuf>,

    /// Drive this mask instead of the plugin's.
    #[arg(long, hide = true)]
    drive_mask: Option<u32>,
}

#[derive(Clone, Debug)]
struct Threads(Vec<usize>);

fn parse_threads(text: &str) -> Result<Threads, String> {
    let number = |text: &str| match text.trim().parse() {
        Ok(number @ 1..=1024) => Ok(number),
        _ => Err(format!("{text:?} is no number of threads (1 to 1024)")),
    };
    if let Some((first, last)) = text.split_once("..") {
        let last = last.trim_start_matches('=');
        return Ok(Threads((number(first)?..=number(last)?).collect()));
    }
    text.split(',')
        .map(number)
        .collect::<Result<_, _>>()
        .map(Threads)
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    if !(arguments.seconds > 0.0 && arguments.seconds <= 3600.0) {
        bail!("--seconds must lie between 0 and 3600");
    }
    if arguments.no_timing {
        return run_no_timing(arguments);
    }
    if let Some(file) = &arguments.case_to {
        let case = case_here(arguments)?;
        fs::write(file, serde_json::to_vec(&case)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
        return Ok(Outcome::Well);
    }
    let mut report = Report::default();
    let empty = empty_plugin(arguments)?;
    for threads in &arguments.threads.0 {
        let case = case_in_child(arguments, &arguments.plugin, *threads, None)?;
        if let Some(empty) = &empty {
            report
                .empty
                .push(case_in_child(arguments, empty, *threads, Some(&case))?);
        }
        report.cases.push(case);
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{report}");
    }
    let wrong = report.cases.iter().any(|case| case.late_log_lines > 0);
    Ok(if wrong { Outcome::Wrong } else { Outcome::Well })
}

fn options(arguments: &Arguments) -> Options<'_> {
    Options {
        threads: arguments.threads.0.first().copied().unwrap_or(1),
        length: arguments.iterations.map_or_else(
            || Length::Time(Duration::from_secs_f64(arguments.seconds)),
            Length::Operations,
        ),
        mask: arguments.drive_mask,
        shape: Shape {
            channels: arguments.channels,
            steps: arguments.steps,
            rank: 0,
            peer: 1,
        },
        pin: arguments.pin,
        timing: !arguments.no_timing,
        folder: arguments.out_dir.as_deref(),
    }
}

fn run_no_timing(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let plugin = load(&arguments.plugin, arguments.table)?;
    let operations = arguments.iterations.unwrap_or(0);
    let calls = run_bare(&plugin, options(arguments), operations);
    println!("{operations} operations, {calls} callbacks");
    Ok(Outcome::Well)
}

fn case_here(arguments: &Arguments) -> anyhow::Result<Case> {
    let plugin = load(&arguments.plugin, arguments.table)?;
    Ok(run_case(&plugin, options(arguments))?)
}

/// A process for each case: memory, the mask and what the plugin keeps start from nothing.
fn case_in_child(
    arguments: &Arguments,
    plugin: &Path,
    threads: usize,
    like: Option<&Case>,
) -> anyhow::Result<Case> {
    let program = env::current_exe().context("cannot find this program's own file")?;
    let file = env::temp_dir().join(format!("plugin-host-case-{}.json", std::process::id()));
    let mut command = Command::new(program);
    command.arg("bench").arg(plugin);
    command.arg("--case-to").arg(&file);
    command.args(["--threads", &threads.to_string()]);
    command.args(["--channels", &arguments.channels.to_string()]);
    command.args(["--steps", &arguments.steps.to_string()]);
    command.args(["--seconds", &arguments.seconds.to_string()]);
    if let Some(iterations) = arguments.iterations {
        command.args(["--iterations", &iterations.to_string()]);
    }
    if arguments.pin {
        command.arg("--pin");
    }
    match like {
        Some(case) => {
            command.args(["--table", &case.table.to_string()]);
            command.args(["--drive-mask", &case.mask.to_string()]);
        }
        None => {
            if let Some(table) = arguments.table {
                command.args(["--table", &table.number().to_string()]);
            }
            if let Some(folder) = &arguments.out_dir {
                command.arg("--out-dir").arg(folder);
            }
        }
    }
    let status = command
        .status()
        .context("cannot start a process for a case")?;
    let text = fs::read(&file);
    let _ = fs::remove_file(&file);
    if !status.success() {
        bail!(
            "the process that ran {} ended with {status}",
            plugin.display()
        );
    }
    Ok(serde_json::from_slice(
        &text.context("the case's process left no result")?,
    )?)
}

fn empty_plugin(arguments: &Arguments) -> anyhow::Result<Option<PathBuf>> {
    if arguments.no_compare {
        return Ok(None);
    }
    if let Some(path) = &arguments.empty {
        return Ok(Some(path.clone()));
    }
    let program = env::current_exe().context("cannot find this program's own file")?;
    let found = program.parent().and_then(|folder| {
        [
            "libnccl_profiler_empty.so",
            "deps/libnccl_profiler_empty.so",
        ]
        .into_iter()
        .map(|name| folder.join(name))
        .find(|path| path.exists())
    });
    if found.is_none() {
        eprintln!(
            "plugin-host: no comparison: libnccl_profiler_empty.so is not beside {} (build nccl-profiler-empty, or name it with --empty)",
            program.display()
        );
    }
    Ok(found)
}
