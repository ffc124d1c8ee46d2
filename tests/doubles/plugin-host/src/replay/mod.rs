//! `plugin-host replay`: a recorded stream, called again.

mod double;
mod order;
mod report;
mod run;
mod stream;
mod turn;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use report::Report;
use run::{Options, Speed, replay};
use stream::Stream;

use crate::nccl::NcclArguments;
use crate::verb::{Outcome, PluginArguments};

/// Replay recorded streams of callbacks.
///
/// The callbacks come in the recorded order from as many threads as recorded. Parents, contexts and the process's
/// own pid are translated; GPU times are passed as recorded. What an older table does not have is left out
/// as NCCL's shims do, and what the plugin's mask does not ask for as NCCL does. What was called and what was left
/// out is printed as JSON, one object for each stream.
///
/// Several streams are several processes that run at the same time, as in the job that was recorded.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Recorded streams (JSON Lines), one for each process.
    #[arg(required = true, value_name = "STREAM.jsonl")]
    streams: Vec<PathBuf>,

    #[command(flatten)]
    plugin: PluginArguments,

    /// With the recorded gaps between callbacks, or as fast as possible.
    #[arg(long, value_enum, default_value = "full")]
    speed: Speed,

    /// Replay everything that was recorded, whatever mask the plugin set.
    #[arg(long)]
    all_events: bool,

    #[command(flatten)]
    nccl: NcclArguments,

    /// Give each process RANK and WORLD_SIZE, counted in the order of the streams, as torchrun does.
    #[arg(long)]
    rank_environment: bool,

    /// Play the recorded kernels to this double of libcupti (libfake_cupti.so), each when its launch ends
    #[arg(long, value_name = "PATH")]
    cupti: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    if let [stream] = arguments.streams.as_slice()
        && !arguments.rank_environment
    {
        let report = replay_here(arguments, stream)?;
        println!("{}", serde_json::to_string(&report)?);
        return Ok(outcome(report.is_clean()));
    }
    let mut children = Vec::new();
    for (rank, stream) in arguments.streams.iter().enumerate() {
        children.push((stream, spawn(arguments, stream, rank)?));
    }
    let mut clean = true;
    for (stream, child) in children {
        let output =
            child.wait_with_output().with_context(|| format!("cannot wait for the process of {}", stream.display()))?;
        // The plugin may have written to standard output before.
        let text = String::from_utf8_lossy(&output.stdout);
        let last = text.lines().next_back().unwrap_or("");
        match serde_json::from_str::<Report>(last) {
            Ok(report) => {
                println!("{last}");
                clean &= report.is_clean() && matches!(output.status.code(), Some(0 | 1));
            }
            Err(_) => {
                eprintln!("plugin-host: the process of {} ended with {}", stream.display(), output.status);
                clean = false;
            }
        }
    }
    Ok(outcome(clean))
}

const fn outcome(clean: bool) -> Outcome {
    if clean { Outcome::Well } else { Outcome::Wrong }
}

fn replay_here(arguments: &Arguments, path: &Path) -> anyhow::Result<Report> {
    let stream = Stream::read(path)?;
    // Lives to the end of the replay, as libnccl does in a program that is linked with it.
    let _libnccl = arguments.nccl.load()?;
    let plugin = arguments.plugin.load()?;
    let options =
        Options { speed: arguments.speed, respect_mask: !arguments.all_events, double: arguments.cupti.as_deref() };
    let mut report = replay(&plugin, &stream, options).context("cannot replay")?;
    report.stream = path.display().to_string();
    Ok(report)
}

fn spawn(arguments: &Arguments, stream: &Path, rank: usize) -> anyhow::Result<Child> {
    let program = env::current_exe().context("cannot find this program's own file")?;
    let mut command = Command::new(program);
    command.arg("replay").arg(stream);
    command.arg("--plugin").arg(&arguments.plugin.plugin);
    if let Some(table) = arguments.plugin.table {
        command.args(["--table", &table.number().to_string()]);
    }
    let speed = match arguments.speed {
        Speed::Recorded => "recorded",
        Speed::Full => "full",
    };
    command.args(["--speed", speed]);
    if let Some(cupti) = &arguments.cupti {
        command.arg("--cupti").arg(cupti);
    }
    if arguments.all_events {
        command.arg("--all-events");
    }
    arguments.nccl.pass_on(&mut command);
    if arguments.rank_environment {
        command.env("RANK", rank.to_string());
        command.env("WORLD_SIZE", arguments.streams.len().to_string());
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.spawn().context("cannot start a process for a stream")
}
