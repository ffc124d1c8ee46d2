//! What the tests share: this program, and the plugins that were built with it.

use std::path::PathBuf;
use std::process::{Command, Output};

/// The program under test.
pub(crate) fn plugin_host() -> Command {
    Command::new(env!("CARGO_BIN_EXE_plugin-host"))
}

/// A plugin that was built with this test (Cargo puts libraries of dependencies beside the test).
pub(crate) fn plugin(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let file = test.with_file_name(format!("libnccl_profiler_{name}.so"));
    assert!(file.exists(), "{} was not built", file.display());
    file
}

/// Standard output and error, for messages.
pub(crate) fn said(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
