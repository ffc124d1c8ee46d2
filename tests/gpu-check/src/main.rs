//! What only a GPU can show: each question is a check with a name, a time limit and measured facts.
//!
//! ```text
//! main ─ options, machine (which NCCL, CUPTI, CUDA runtime) ─ plan (all checks, in order; a table, and JSON)
//!          checks/   NCCL's jobs under the plugin, PyTorch: other programs, killed at their time limit
//!          probe/    CUPTI and the driver by themselves: this program again, a process for each
//! ```
//!
//! Nothing is in one process that could take the rest along: a check that hangs or crashes is one line of the table.

mod checks;
mod context;
mod machine;
mod options;
mod outcome;
mod plan;
mod probe;
mod process;

use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = options::Options::parse();
    if let Some(name) = &options.probe {
        return probe::run(name, &options);
    }
    if options.list {
        print!("{}", plan::list());
        return ExitCode::SUCCESS;
    }
    match plan::run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("gpu-check: {message}");
            ExitCode::from(2)
        }
    }
}
