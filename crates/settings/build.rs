//! Passes the version to the crate.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=NCCL_PROFILER_OTF2_VERSION={}", version());
}

/// The package version, extended in a git tree by the output of `git describe`.
fn version() -> String {
    let package = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    // The log of HEAD changes with every commit and every checkout.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    }
    match git(&["describe", "--tags", "--always", "--dirty"]) {
        Some(described) if described != format!("v{package}") => format!("{package} ({described})"),
        _ => package,
    }
}

/// git's output, or `None` without git or outside this project's repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
