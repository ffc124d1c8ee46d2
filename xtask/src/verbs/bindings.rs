//! `cargo xtask bindings`: the checked-in bindings, made again from the C headers.

use crate::cargo;
use crate::failure::Result;
use crate::options::{Options, unknown};
use crate::packages::{self, LIBCLANG, OTF2};
use crate::process;
use crate::report;

const HELP: &str = "\
Regenerates the checked-in bindings from wrapper.h (NCCL's profiler interface) and from OTF2's headers.

Usage: cargo xtask bindings

Needs libclang. The result is compared with what is committed by CI (git diff), so run this after a change of
wrapper.h. OTF2's bindings are those of 3.0, the oldest supported release: make them on a machine that has it.
";

/// The packages with generated code that is checked in.
const BOUND: [&str; 2] = ["nccl-profiler-otf2", "otf2-sys"];

/// Runs the command.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let mut options = Options::new(words);
    match options.next()? {
        None => {}
        Some("-h" | "--help") => {
            print!("{HELP}");
            return Ok(());
        }
        Some(word) => return Err(unknown(word, HELP)),
    }
    packages::ensure(&[OTF2, LIBCLANG])?;
    report::heading("bindings");
    for package in BOUND {
        // The build scripts write into the source tree when they are told to, and never else.
        let mut build = cargo::command();
        build.args([
            "build",
            "--locked",
            "--package",
            package,
            "--features",
            "buildtime-bindgen",
        ]);
        process::run(build.env("BINDGEN_WRITE", "1"))?;
    }
    Ok(())
}
