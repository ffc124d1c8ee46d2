//! `nccl-host`: a small NCCL job on one machine.
//!
//! ```text
//! launcher ── spawns ── worker process 0 ── thread rank 0, thread rank 1 …
//!    │                  worker process 1 ── …
//!    └ time limit, deliberate kills, summary; never loads NCCL or CUDA itself
//! ```
//!
//! The workers are this same program, started again with two hidden options. What they agree on (the unique
//! id, who is ready, the results) goes through files in a temporary directory: [`rendezvous`].

mod call_log;
mod calls;
mod cuda;
mod exact;
mod launcher;
mod nccl;
mod ops;
mod options;
mod output;
mod pattern;
mod program;
mod ranges;
mod rank;
mod rendezvous;
mod worker;

use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = options::Options::parse().with_processes();
    let outcome = match options.worker {
        Some(process) => worker::run(&options, process),
        None => launcher::run(&options),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("nccl-host: {error:#}");
            ExitCode::from(launcher::EXIT_ERROR)
        }
    }
}
