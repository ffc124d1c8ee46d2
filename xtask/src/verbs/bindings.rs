//! `cargo xtask bindings`: regenerates the checked-in bindings from the C headers.

use anyhow::Result;

use crate::cargo;
use crate::packages::{self, LIBCLANG, OTF2};
use crate::process::{heading, run as run_command};

pub(crate) fn run() -> Result<()> {
    packages::ensure(&[OTF2, LIBCLANG])?;
    heading("bindings");
    // Each build script writes into the source tree only if its variable is set.
    let mut recorder = cargo::command("build");
    recorder.args(["--package", "nccl-otf2-recorder", "--features", "buildtime-bindgen"]);
    run_command(recorder.env("BINDGEN_WRITE", "1"))?;
    let mut otf2 = cargo::command("test");
    otf2.args(["--package", "otf2-sys", "--test", "bindings"]);
    run_command(otf2.env("OTF2_SYS_UPDATE_BINDINGS", "1"))
}
