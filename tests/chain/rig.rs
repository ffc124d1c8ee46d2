//! Echo plugins, alone and behind the plugin that was built.

use std::path::{Path, PathBuf};
use std::process::Command;

use whole_plugin::built;
use whole_plugin::machine::two_process_streams;
use whole_plugin::process::{FinishedProcess, run};
use whole_plugin::scratch::Scratch;

/// What is played to the plugins.
#[derive(Clone, Copy)]
pub(crate) enum Play<'a> {
    /// What was recorded of a process.
    Stream,
    Script(&'a str),
}

/// All kinds, for the tables that have API events. A type that NCCL does not define is left out: NCCL's own mask, too,
/// has no bit for it.
pub(crate) fn everything() -> String {
    let script = include_str!("../support/everything.script");
    script.lines().filter(|line| !line.contains(" odd")).fold(String::new(), |all, line| all + line + "\n")
}

/// A copy of the echo plugin, which takes the variables `ECHO_<name>_…` and writes the log `<name>`.
pub(crate) fn copy(scratch: &Scratch, name: &str) -> PathBuf {
    let file = scratch.path().join(format!("lib{name}.so"));
    std::fs::copy(built::echo_plugin(), &file).expect("the echo plugin can be copied");
    file
}

/// A plugin that has this table of a copy only.
pub(crate) fn only(scratch: &Scratch, version: u32) -> PathBuf {
    let file = scratch.path().join(format!("libonly{version}.so"));
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"]).arg(&file).arg(format!("-DVERSION={version}"));
    let _made = run(compiler.arg(built::root().join("tests/chain/only.c")).arg("-ldl")).with_code(0);
    file
}

/// The command that plays to a plugin through a table.
pub(crate) fn play(scratch: &Scratch, play: Play<'_>, plugin: &Path, table: u32) -> Command {
    let mut command = match play {
        Play::Script(script) => scratch.named_script("script", script, plugin),
        Play::Stream => {
            let mut command = scratch.command(built::plugin_host());
            let [stream, _] = two_process_streams();
            command.arg("replay").arg(stream).arg("--plugin").arg(plugin);
            command
        }
    };
    command.args(["--table", &table.to_string()]);
    command
}

/// What an echo plugin is called with when NCCL loads it alone.
pub(crate) fn alone(what: Play<'_>, table: u32, settings: &[(&str, &str)]) -> String {
    let scratch = Scratch::new();
    let mut command = play(&scratch, what, &built::echo_plugin(), table);
    command.env("ECHO_OUT", scratch.path().join("log"));
    for (name, value) in settings {
        command.env(format!("ECHO_{name}"), value);
    }
    let _ended = run(&mut command).with_code(0);
    log(&scratch, "log")
}

pub(crate) fn log(scratch: &Scratch, name: &str) -> String {
    std::fs::read_to_string(scratch.path().join(name)).unwrap_or_default()
}

/// Plays with plugins behind this one.
pub(crate) fn chained(scratch: &Scratch, what: Play<'_>, table: u32, chain: &str) -> Command {
    let mut command = play(scratch, what, &built::plugin(), table);
    command.env("NCCL_OTF2_CHAIN", chain).env("NCCL_OTF2_EVENTS", "full");
    command
}

/// Runs it; the archive is there at the end.
pub(crate) fn finish(scratch: &Scratch, command: &mut Command) -> FinishedProcess {
    let ended = run(command).with_code(0);
    let _finalized = scratch.finalize().with_code(0);
    ended
}

/// What an echo plugin behind this one is called with, by the variables of [`alone`] and others.
pub(crate) fn behind(scratch: &Scratch, what: Play<'_>, table: u32, variables: &[(&str, &str)]) -> String {
    let file = copy(scratch, "one");
    let mut command = chained(scratch, what, table, file.to_str().expect("a path"));
    command.env("ECHO_OUT", scratch.path().join("log")).envs(variables.iter().copied());
    let _ended = finish(scratch, &mut command);
    log(scratch, "log")
}

/// Fails with the first line that differs.
pub(crate) fn same(found: &str, expected: &str, what: &str) {
    assert!(!expected.is_empty(), "{what}: nothing was called");
    for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "{what}: line {}", number + 1);
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "{what}: lines");
}
