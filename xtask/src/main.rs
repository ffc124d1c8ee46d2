//! The project's own commands: `cargo xtask demo`, `cargo xtask test` and what CI needs beside them.
//!
//! Nothing here is part of the product. It prepares a machine (Debian packages, a Python environment, published
//! NCCL libraries in the user's cache), builds the workspace, and runs it.

mod cache;
mod cargo;
mod failure;
mod gpu;
mod nccl;
mod options;
mod packages;
mod process;
mod python;
mod report;
mod verbs;

use std::process::ExitCode;

use failure::{Failure, Result};

const HELP: &str = "\
The project's own commands.

Usage: cargo xtask COMMAND [OPTIONS]

Commands:
  demo        Record a real NCCL (on emulated devices where there is no GPU), write the archive, check and count it
  test        Install what is missing, fetch NCCL, build everything and run all tests
  setup       Only install and fetch what demo and test need
  matrix      Run many releases of NCCL in many ways and hold each archive against what was done
  readers     Read archives with three readers and compare what they say, event by event
  torture     Kill the processes of jobs at random instants and see that no record is lost
  scale       Make the archive of a synthetic job as large as one likes, and measure it
  gpu-check   Find out on a machine with a GPU what only that can show
  house       Hold circles of imports, sizes and widths of the code base against the limits
  bindings    Regenerate the checked-in bindings from the C headers (needs libclang)
  cupti-layout  Compare the layout of CUPTI's records that is committed with CUPTI's headers (needs libclang)
  screenshot  Draw an archive with the viewer ViTE on a virtual display

cargo xtask COMMAND --help says more about each.
Exit status: 0 all is well, 1 something was found wrong, 2 usage, or something is missing on this machine.
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let verb = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    match dispatch(&verb, &rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("\ncargo xtask {verb}: {}", failure.message());
            failure.exit_code()
        }
    }
}

fn dispatch(verb: &str, rest: &[String]) -> Result<()> {
    match verb {
        "demo" => verbs::demo::run(rest),
        "test" => verbs::test::run(rest),
        "setup" => verbs::setup::run(rest),
        "gpu-check" => verbs::gpu_check::run(rest),
        "matrix" => verbs::matrix::run(rest),
        "readers" => verbs::readers::run(rest),
        "scale" => verbs::scale::run(rest),
        "torture" => verbs::torture::run(rest),
        "house" => house(rest),
        "bindings" => verbs::bindings::run(rest),
        "cupti-layout" => verbs::cupti_layout::run(rest),
        "screenshot" => verbs::screenshot::run(rest),
        "" | "help" | "-h" | "--help" => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(Failure::usage(format!(
            "there is no command `{other}`\n\n{HELP}"
        ))),
    }
}

fn house(rest: &[String]) -> Result<()> {
    use clap::{Args as _, FromArgMatches as _};
    let command = verbs::house::Args::augment_args(clap::Command::new("cargo xtask house"));
    let words = std::iter::once("house").chain(rest.iter().map(String::as_str));
    match command
        .try_get_matches_from(words)
        .and_then(|found| verbs::house::Args::from_arg_matches(&found))
    {
        Ok(args) => verbs::house::run(&args),
        Err(error) => error.exit(),
    }
}
