//! `cargo xtask test`: prepares a fresh machine, then runs all tests.

use anyhow::Result;

use crate::cargo;
use crate::process;
use crate::verbs::{page, setup};

/// Install what is missing, fetch NCCL, build everything and run all tests
///
///   cargo xtask test                            all tests, also those of the report's page (cargo xtask page)
///   cargo xtask test -p otf2                    one package
///   cargo xtask test --test archive -- replay   tests by name
///
/// NCCL's published libraries (250 to 350 MB each) and two Python environments, with the otf2 reader and with
/// TensorFlow (1.8 GB), are kept in $XDG_CACHE_HOME/nccl-profiler-otf2 (or ~/.cache/nccl-profiler-otf2). The tests
/// find them through NCCL_OTF2_TEST_NCCL_DIR, PYTHON and NCCL_OTF2_TEST_TENSORFLOW, which this command sets.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Arguments of cargo test
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let machine = setup::everything()?;
    process::heading("build");
    // Tests start programs and load libraries of other packages, of which `cargo test` builds only some. They are built
    // together with the tests, so that nothing is rebuilt with the features of development dependencies.
    let targets = ["--workspace", "--lib", "--bins", "--examples", "--tests"];
    process::run(cargo::command("build").args(targets))?;

    process::heading("tests");
    let mut test = cargo::command("test");
    // One run shows all failures.
    test.arg("--no-fail-fast");
    if !names_packages(&args.arguments) {
        test.arg("--workspace");
    }
    // Most tests wait for the processes that they start, so two for each core finish sooner than one.
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        test.env("RUST_TEST_THREADS", (2 * cores).to_string());
    }
    test.args(&args.arguments)
        .env("NCCL_OTF2_TEST_NCCL_DIR", &machine.libraries)
        .env("PYTHON", machine.python.interpreter())
        .env("NCCL_OTF2_TEST_TENSORFLOW", machine.tensorflow.interpreter());
    process::run(&mut test)?;
    if args.arguments.is_empty() {
        page::run(&page::Args::default())?;
    }
    Ok(())
}

fn names_packages(arguments: &[String]) -> bool {
    let mut own = arguments.iter().take_while(|word| *word != "--");
    own.any(|word| {
        ["-p", "--package", "--workspace", "--all"].contains(&word.as_str()) || word.starts_with("--package=")
    })
}
