//! What a plugin is called with, against what was asked for.

#[path = "../../src/interface.rs"]
#[expect(dead_code, reason = "of the program's own module the tests need the names and what a version has")]
mod interface;
mod replay;
mod script_and_bench;

use std::path::PathBuf;
use std::process::{Command, Output};

fn plugin_host() -> Command {
    Command::new(env!("CARGO_BIN_EXE_plugin-host"))
}

/// A plugin that was built with this test (Cargo puts libraries of dependencies beside the test).
fn plugin(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let file = test.with_file_name(format!("libnccl_profiler_{name}.so"));
    assert!(file.exists(), "{} was not built", file.display());
    file
}

fn printed(output: &Output) -> String {
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{}\n{stdout}{stderr}", output.status)
}
