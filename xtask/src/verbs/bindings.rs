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
    // Each writes into the source tree when its variable tells it to, and never else.
    let mut profiler = cargo::command();
    profiler
        .args(["build", "--locked", "--package", "nccl-profiler-otf2"])
        .args(["--features", "buildtime-bindgen"])
        .env("BINDGEN_WRITE", "1");
    process::run(&mut profiler)?;
    let mut otf2 = cargo::command();
    otf2.args([
        "test",
        "--locked",
        "--package",
        "otf2-sys",
        "--test",
        "bindings",
    ])
    .env("OTF2_SYS_UPDATE_BINDINGS", "1");
    process::run(&mut otf2)
}
