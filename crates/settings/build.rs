//! Names the version.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=NCCL_PROFILER_OTF2_VERSION={}", version());
}

/// The package version, and in a git tree what `git describe` adds to it.
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

/// What git says, or nothing where there is no git or no repository of ours.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
