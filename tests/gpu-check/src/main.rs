//! What only a GPU can show: each question is a check with a name, a time limit and measured facts.
//!
//! ```text
//! main ─ options, machine (which NCCL, CUPTI, CUDA runtime) ─ plan (all checks, in order)
//!          checks/   NCCL's jobs under the plugin, PyTorch: other programs, killed at their time limit
//!          probe/    CUPTI and the driver by themselves: this program again, a process for each
//!        report ─ a table, and JSON
//! ```
//!
//! Nothing is in one process that could take the rest along: a check that hangs or crashes is one line of the table.

mod bundle;
mod checks;
mod machine;
mod options;
mod outcome;
mod plan;
mod probe;
mod process;
mod report;

use std::process::ExitCode;

fn main() -> ExitCode {
    let options = match options::parse(std::env::args_os().skip(1)) {
        Ok(options::Wanted::Checks(options)) => options,
        Ok(options::Wanted::Probe(request)) => return probe::run(&request),
        Ok(options::Wanted::Help) => {
            print!("{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        Ok(options::Wanted::List) => {
            print!("{}", report::list(plan::CHECKS));
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("gpu-check: {message}");
            return ExitCode::from(2);
        }
    };
    match plan::run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("gpu-check: {message}");
            ExitCode::from(2)
        }
    }
}
