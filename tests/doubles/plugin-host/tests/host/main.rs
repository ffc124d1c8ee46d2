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

fn said(output: &Output) -> String {
    const MOST: usize = 64 << 10;
    let shown = |bytes: &[u8]| match bytes.len().checked_sub(2 * MOST) {
        None | Some(0) => String::from_utf8_lossy(bytes).into_owned(),
        Some(cut) => {
            let head = String::from_utf8_lossy(&bytes[..MOST]);
            let tail = String::from_utf8_lossy(&bytes[MOST + cut..]);
            format!("{head}\n[{cut} bytes left out]\n{tail}")
        }
    };
    format!("{}\n{}{}", output.status, shown(&output.stdout), shown(&output.stderr))
}
