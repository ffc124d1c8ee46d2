//! `plugin-host bench`: times the callbacks of a profiler plugin.
//!
//! The loops neither allocate nor lock: descriptors are made before, samples go into arrays that were made and touched
//! before.

pub(crate) mod mix;
mod report;
mod run;
mod timer;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use report::{Case, Report};
use run::{Length, Options};

use crate::interface::Version;
use crate::outcome::Outcome;
use crate::plugin_arguments::load;

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

    /// Numbers of threads to run with: 1,2,4.
    #[arg(long, default_value = "1", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Vec<u16>,

    /// How long the timed part takes, and the untimed one again.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,

    /// How many operations each thread does, instead of --seconds.
    #[arg(long)]
    iterations: Option<u64>,

    /// Do not run the empty plugin.
    #[arg(long)]
    no_compare: bool,

    /// Only call, time nothing: for callgrind. Needs --iterations and --no-compare.
    #[arg(long, requires_all = ["iterations", "no_compare"])]
    no_timing: bool,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,

    /// Drive this mask instead of the plugin's.
    #[arg(long, hide = true)]
    drive_mask: Option<u32>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    ensure!(arguments.seconds > 0.0 && arguments.seconds <= 3600.0, "--seconds must lie between 0 and 3600");
    let mut report = Report::default();
    match arguments.threads.as_slice() {
        [threads] if arguments.no_compare => {
            let plugin = load(&arguments.plugin, arguments.table)?;
            let options = options(arguments, *threads);
            if arguments.no_timing {
                let operations = arguments.iterations.unwrap_or(0);
                let calls = run::run_bare(&plugin, options, operations);
                println!("{operations} operations, {calls} callbacks");
                return Ok(Outcome::Well);
            }
            report.cases.push(run::run(&plugin, options)?);
        }
        several => {
            let empty = if arguments.no_compare { None } else { Some(empty_plugin()?) };
            for threads in several {
                let case = case_in_child(arguments, &arguments.plugin, *threads, None)?;
                if let Some(empty) = &empty {
                    let like = case_in_child(arguments, empty, *threads, Some(&case))?;
                    report.empty.push(like);
                }
                report.cases.push(case);
            }
        }
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{report}");
    }
    let wrong = report.cases.iter().any(|case| case.late_log_lines > 0);
    Ok(if wrong { Outcome::Wrong } else { Outcome::Well })
}

fn options(arguments: &Arguments, threads: u16) -> Options {
    let time = Length::Time(Duration::from_secs_f64(arguments.seconds));
    Options {
        threads: threads.into(),
        length: arguments.iterations.map_or(time, Length::Operations),
        mask: arguments.drive_mask,
    }
}

/// A process for each case: memory, the mask and what the plugin keeps start from nothing.
fn case_in_child(arguments: &Arguments, plugin: &Path, threads: u16, like: Option<&Case>) -> anyhow::Result<Case> {
    let mut command = Command::new(env::current_exe()?);
    command.arg("bench").arg(plugin).args(["--json", "--no-compare"]);
    let mut option = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            command.arg(name).arg(value);
        }
    };
    option("--threads", Some(threads.to_string()));
    option("--seconds", Some(arguments.seconds.to_string()));
    option("--iterations", arguments.iterations.map(|number| number.to_string()));
    let table = arguments.table.map(Version::number);
    let table = like.map_or(table, |case| Some(case.table));
    option("--table", table.map(|table| table.to_string()));
    option("--drive-mask", like.map(|case| case.mask.to_string()));
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.context("cannot start a process for a case")?;
    ensure!(output.status.success(), "the process that ran {} ended with {}", plugin.display(), output.status);
    let report: Report = serde_json::from_slice(&output.stdout)?;
    report.cases.into_iter().next().context("a process without a case")
}

/// Beside the program, or where Cargo puts the libraries of a test.
fn empty_plugin() -> anyhow::Result<PathBuf> {
    const FILE: &str = "libnccl_profiler_empty.so";
    let program = env::current_exe()?;
    let mut places = [program.with_file_name(FILE), program.with_file_name("deps").join(FILE)].into_iter();
    places.find(|path| path.exists()).with_context(|| {
        let program = program.display();
        format!("{FILE} is not beside {program}: cargo build -p nccl-profiler-empty makes it (or --no-compare)")
    })
}
