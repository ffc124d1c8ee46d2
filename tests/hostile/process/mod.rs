//! What belongs to the process as a whole, in a program in C that treats it badly: `program.c`.

mod denied;
mod descriptors;
mod stderr;

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use whole_plugin::built;
use whole_plugin::process::{FinishedProcess, run};
use whole_plugin::scratch::Scratch;

/// How many events the step `work` starts.
const EVENTS: u64 = 2 * 25_000;

/// The program with a plugin and these steps, and every line that the plugin can say on standard error.
fn program(scratch: &Scratch, plugin: &Path, steps: &str) -> Command {
    static COMPILED: OnceLock<Scratch> = OnceLock::new();
    let compiled = COMPILED.get_or_init(|| {
        let directory = Scratch::new();
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"]).arg(built::root());
        compiler.arg("-o").arg(directory.path().join("program"));
        let _silent = run(compiler.arg(built::root().join("tests/hostile/process/program.c")).arg("-ldl")).with_code(0);
        directory
    });
    let mut command = scratch.command(compiled.path().join("program"));
    command.arg(plugin).args(steps.split(' ')).env("NCCL_OTF2_VERBOSITY", "verbose");
    command
}

/// Runs the steps with the plugin; the program must end well, and the archive have all events or count them as lost.
fn survives(steps: &str, variables: &[(&str, &str)]) -> (FinishedProcess, Scratch) {
    let scratch = Scratch::new();
    let ended = run(program(&scratch, &built::plugin(), steps).envs(variables.iter().copied())).with_code(0);
    let _finalized = scratch.finalize().with_code(0);
    let archive = scratch.sound_archive();
    assert_eq!(archive.count("GROUP::WRITTEN") + archive.count("GROUP::LOST"), EVENTS, "{ended}");
    (ended, scratch)
}
