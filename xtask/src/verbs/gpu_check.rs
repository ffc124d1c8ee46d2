//! `cargo xtask gpu-check`: what only a GPU can show, as a folder that a machine with a GPU runs by itself.

mod bundle;

use std::path::PathBuf;
use std::process::Command;

use crate::cache::Cache;
use crate::cargo::{self, Profile};
use crate::failure::{Failure, Result};
use crate::gpu;
use crate::nccl;
use crate::options::{Options, unknown};
use crate::packages::{self, BINUTILS, COMPILER, OTF2, PYTHON};
use crate::process;
use crate::python::Python;
use crate::report;
use bundle::Bundle;

const HELP: &str = "\
Finds out what only a GPU can show: how NCCL, CUPTI and the plugin behave there, and what recording costs.

Usage: cargo xtask gpu-check [--bundle DIR] [--debug] [--fake [ARGUMENTS OF gpu-check]]

  --bundle DIR  only make the folder that does it: DIR/gpu-check runs on a machine with a GPU that has neither Rust nor
                a network, finds NCCL, CUPTI and the CUDA runtime on the library path or in Python packages, and ends
                within 10 minutes with a table and gpu-check.json (DIR/gpu-check --help)
  --debug       with programs that are not optimized: built soon, and what they cost says nothing
  --fake        make the folder and run it here on the doubles of GPU and CUPTI: tries the checks themselves

Without --bundle and --fake: make the folder and run it here, where there is a GPU. The programs need a C library at
least as new as that of the machine that built them; the folder's file BUNDLE says which.
What is known from such runs is in docs/GPU.md.
";

/// The release of NCCL that the doubles are tried with.
const NCCL_OF_FAKE: &str = "2.28.9";

#[derive(Debug, Default)]
struct Request {
    folder: Option<PathBuf>,
    is_debug: bool,
    is_fake: bool,
    arguments: Vec<String>,
}

impl Request {
    fn parse(words: &[String]) -> Result<Option<Self>> {
        let mut request = Self::default();
        let mut options = Options::new(words);
        while let Some(word) = options.next()? {
            match word {
                "--bundle" => request.folder = Some(options.value(word)?.into()),
                "--debug" => request.is_debug = true,
                "--fake" => request.is_fake = true,
                "-h" | "--help" => return Ok(None),
                // What follows is gpu-check's own.
                other if request.is_fake => {
                    request.arguments.push(other.to_owned());
                    while let Some(more) = options.next()? {
                        request.arguments.push(more.to_owned());
                    }
                }
                other => return Err(unknown(other, HELP)),
            }
        }
        if request.is_fake && request.folder.is_some() {
            return Err(Failure::usage(
                "--bundle only makes the folder, --fake runs one: choose",
            ));
        }
        Ok(Some(request))
    }
}

/// Runs the command.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let Some(request) = Request::parse(words)? else {
        print!("{HELP}");
        return Ok(());
    };
    let only_make = request.folder.is_some();
    if !only_make && !request.is_fake && gpu::devices() == 0 {
        return Err(Failure::missing(
            "this machine shows no GPU (/dev/nvidia0): --bundle DIR makes a folder for one that has, --fake tries it here",
        ));
    }
    packages::ensure(&[OTF2, COMPILER, BINUTILS])?;
    let profile = if request.is_debug {
        Profile::Debug
    } else {
        Profile::Release
    };
    report::heading("build");
    cargo::build(profile, bundle::PACKAGES)?;
    report::heading("bundle");
    let folder = match request.folder {
        Some(folder) => std::path::absolute(&folder).unwrap_or(folder),
        None => cargo::target()?.join("gpu-check"),
    };
    let bundle = Bundle::make(&folder, profile)?;
    if only_make {
        report::fact(&format!(
            "carry it to the machine, and run {}",
            bundle.program().display()
        ));
        return Ok(());
    }
    report::heading("gpu-check");
    let mut command = Command::new(bundle.program());
    command
        .arg("--json")
        .arg(cargo::target()?.join("gpu-check.json"));
    if request.is_fake {
        command.arg("--fake-gpu").arg("--nccl").arg(fake_nccl()?);
    }
    process::run(command.args(&request.arguments))
}

fn fake_nccl() -> Result<PathBuf> {
    packages::ensure(&[PYTHON])?;
    let cache = Cache::open()?;
    let python = Python::ensure(&cache)?;
    nccl::library(&cache, &python, NCCL_OF_FAKE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Request>> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Request::parse(&words)
    }

    #[test]
    fn what_follows_fake_is_for_the_program() {
        let request = parse("--debug --fake --only fork").unwrap().unwrap();
        assert!(request.is_debug && request.is_fake);
        assert_eq!(request.arguments, ["--only", "fork"]);
        assert!(parse("--only fork").is_err());
        assert!(parse("--bundle x --fake").is_err());
    }
}
