//! `cargo xtask gpu-check`: the checks that need a GPU, as a folder that a machine with a GPU runs by itself.

mod bundle;

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::cargo::{self, Profile};
use crate::error::missing;
use crate::nccl;
use crate::packages::{self, BINUTILS, COMPILER, OTF2};
use crate::process::{self, heading};
use crate::python::Python;

/// Run the checks that need a machine with a GPU
///
/// How NCCL, CUPTI and the plugin behave there, and what recording costs. Without --bundle and --fake: make the folder
/// and run it here, where there is a GPU. The programs need a C library at least as new as that of the machine that
/// built them; the folder's file BUNDLE says which. What is known from such runs is in docs/GPU.md.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only make the folder with the checks
    ///
    /// DIR/gpu-check runs on a machine with a GPU that has neither Rust nor a network, finds NCCL, CUPTI and the CUDA
    /// runtime on the library path or in Python packages, and ends within 10 minutes with a table and gpu-check.json
    /// (DIR/gpu-check --help).
    #[arg(long, value_name = "DIR", conflicts_with = "fake")]
    bundle: Option<PathBuf>,
    /// Use unoptimized programs: fast to build, but their costs are meaningless
    #[arg(long)]
    debug: bool,
    /// Make the folder and run it here on the doubles of GPU and CUPTI, to test the checks themselves
    #[arg(long)]
    fake: bool,
    /// Arguments for gpu-check, with --fake
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, requires = "fake")]
    arguments: Vec<String>,
}

const NCCL_OF_FAKE: &str = "2.28.9";

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.bundle.is_none() && !args.fake && gpu_check::devices() == 0 {
        return Err(missing(
            "this machine shows no GPU (/dev/nvidia0): --bundle DIR makes a folder for one that has, --fake tries it here",
        ));
    }
    packages::ensure(&[OTF2, COMPILER, BINUTILS])?;
    let profile = if args.debug { Profile::Debug } else { Profile::Release };
    cargo::build(profile, bundle::PACKAGES)?;
    heading("bundle");
    let folder = match &args.bundle {
        Some(folder) => std::path::absolute(folder).unwrap_or_else(|_| folder.clone()),
        None => cargo::target()?.join("gpu-check"),
    };
    let program = bundle::make(&folder, profile)?;
    if args.bundle.is_some() {
        println!("   copy it to the machine, and run {}", program.display());
        return Ok(());
    }
    heading("gpu-check");
    let mut command = Command::new(program);
    command.arg("--json").arg(cargo::target()?.join("gpu-check.json"));
    if args.fake {
        let (_, libraries) = nccl::releases(&[NCCL_OF_FAKE], Python::ensure_reader)?;
        command.args(["--fake-gpu", "--nccl"]).args(libraries);
    }
    process::run(command.args(&args.arguments))
}
