//! `plugin-host replay`: a recorded stream, called again.

mod double;
mod order;
mod run;
mod stream;
mod turn;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use run::{Options, Speed, replay};
use serde_json::json;
use stream::Stream;

use crate::nccl::{self, NcclArguments};
use crate::plugin::{Outcome, PluginArguments};

/// Replay recorded streams of callbacks.
///
/// The callbacks come in the recorded order from as many threads as recorded. Several streams are several processes
/// that run at the same time, as in the job that was recorded.
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

    /// Internal: replay only the stream of this number
    #[arg(long, hide = true)]
    process: Option<usize>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    match (arguments.streams.as_slice(), arguments.process) {
        ([stream], None) if !arguments.rank_environment => replay_here(arguments, stream),
        (streams, None) => replay_all(arguments, streams),
        (streams, Some(process)) => replay_here(arguments, streams.get(process).context("there is no such stream")?),
    }
}

fn replay_here(arguments: &Arguments, path: &Path) -> anyhow::Result<Outcome> {
    let stream = Stream::read(path)?;
    // Lives to the end of the replay, as libnccl does in a program that is linked with it.
    let _libnccl = arguments.nccl.load()?;
    let plugin = arguments.plugin.load()?;
    let options =
        Options { speed: arguments.speed, respect_mask: !arguments.all_events, double: arguments.cupti.as_deref() };
    let counts = replay(&plugin, &stream, options).context("cannot replay")?;
    let late = nccl::late_lines();
    let report = json!({
        "stream": path, "pid": std::process::id(), "plugin": plugin.name, "table": plugin.version.number(),
        "calls": counts.calls, "left_out": counts.left_out, "errors": counts.errors, "late_log_lines": late,
    });
    println!("{report}");
    Ok(outcome(counts.errors.is_empty() && late == 0))
}

/// Runs this command again for each stream, with the number of the stream.
fn replay_all(arguments: &Arguments, streams: &[PathBuf]) -> anyhow::Result<Outcome> {
    let program = env::current_exe().context("cannot find this program's own file")?;
    let mut children = Vec::new();
    for rank in 0..streams.len() {
        let mut command = Command::new(&program);
        command.args(env::args_os().skip(1)).arg("--process").arg(rank.to_string()).stdin(Stdio::null());
        if arguments.rank_environment {
            command.env("RANK", rank.to_string()).env("WORLD_SIZE", streams.len().to_string());
        }
        children.push(command.spawn().context("cannot start a process for a stream")?);
    }
    let mut clean = true;
    for (mut child, stream) in children.into_iter().zip(streams) {
        let status = child.wait().with_context(|| format!("cannot wait for the process of {}", stream.display()))?;
        if !matches!(status.code(), Some(0 | 1)) {
            eprintln!("plugin-host: the process of {} ended with {status}", stream.display());
        }
        clean &= status.success();
    }
    Ok(outcome(clean))
}

const fn outcome(clean: bool) -> Outcome {
    if clean { Outcome::Well } else { Outcome::Wrong }
}
