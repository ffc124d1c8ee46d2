//! `plugin-host script`: sequences of callbacks that no healthy NCCL would make, and those that it does make.
//!
//! The language is described in this crate's README.

mod command;
mod parse;
mod run;
mod system;
mod threads;
mod words;

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;

use crate::nccl::{self, NcclArguments};
use crate::outcome::Outcome;
use crate::plugin_arguments::PluginArguments;

/// Run a script of callbacks: a hostile host.
///
/// One command a line. Every pointer argument can be NULL, handles can be stale or foreign numbers, threads race,
/// the process forks, kills itself or exits without finalize. The language is described in the README of
/// plugin-host. A small example:
///
///   init c ranks=2 rank=0
///   start g Group
///   start x Coll parent=g func=AllReduce count=100
///   stop x
///   stop x                      # again: NCCL 2.28 does that
///   state x KernelChStop args=NULL
///   parallel 4 {
///     repeat 100 {
///       start p%t ProxyOp parent=x channel=%t
///       stop p%t
///     }
///   }
///   finalize c
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// The script; - for standard input.
    script: PathBuf,

    #[command(flatten)]
    plugin: PluginArguments,

    #[command(flatten)]
    nccl: NcclArguments,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let name = arguments.script.display();
    let text = if arguments.script.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        fs::read_to_string(&arguments.script)
    }
    .with_context(|| format!("cannot read the script {name}"))?;
    let script = parse::parse(&text).map_err(|reason| anyhow::anyhow!("{name}: {reason}"))?;
    // Lives to the end of the script, as libnccl does in a program that is linked with it.
    let _libnccl = arguments.nccl.load()?;
    let plugin = std::path::absolute(&arguments.plugin.plugin)?;
    let done = run::run(&script, plugin, arguments.plugin.table);
    let mut done = done.with_context(|| format!("{name}"))?;
    let (_, late) = nccl::lines();
    if late > 0 {
        done.problems.push(format!("in all: {late} lines to NCCL's logger without a communicator"));
    }
    for problem in &done.problems {
        eprintln!("{name}, {problem}");
    }
    println!("{name}: {} calls, {} problems", done.calls, done.problems.len());
    Ok(if done.problems.is_empty() { Outcome::Well } else { Outcome::Wrong })
}
