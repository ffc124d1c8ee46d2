//! The interface to NCCL: the bindings against the headers, the built library, and what its functions survive.

mod bindings;
mod header;
mod plugin;

use std::path::Path;
use std::process::Command;

use whole_plugin::process::run;

/// The repository's root, where `wrapper.h` is.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What a program that must succeed prints.
fn text(command: &mut Command) -> String {
    run(command).with_code(0).stdout
}

/// The C compiler, strict, with `wrapper.h` on its path.
fn compiler(language: &[&str]) -> Command {
    let mut compiler = Command::new("cc");
    compiler.args(language).args(["-Wall", "-Wextra", "-Werror", "-I"]).arg(root());
    compiler
}
