//! The library that is TensorFlow's profiler, beside the plugin, and what TensorFlow's viewer reads of an export.

mod archive;
mod export;
mod hosts;
mod profile;
mod registration;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use whole_plugin::built::root;
use whole_plugin::process::run;

/// What a script of this folder prints, as JSON.
fn script(python: &Path, name: &str, arguments: &[PathBuf]) -> Value {
    let mut command = Command::new(python);
    command.arg("-B").arg(root().join("tests/tensorflow").join(name)).args(arguments);
    serde_json::from_str(&run(command.env("TF_CPP_MIN_LOG_LEVEL", "2")).with_code(0).stdout).expect("JSON")
}
