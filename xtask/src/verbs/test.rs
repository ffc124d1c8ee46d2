//! `cargo xtask test`: everything a fresh machine needs, then all tests.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::cache;
use crate::cargo;
use crate::process;
use crate::verbs::setup;

/// Install what is missing, fetch NCCL, build everything and run all tests
///
///   cargo xtask test                            all tests
///   cargo xtask test -p otf2                    one package
///   cargo xtask test --test real_nccl -- ring   tests by name
///
/// NCCL's published libraries (250 to 350 MB each) and a Python environment with the otf2 reader are kept in
/// $XDG_CACHE_HOME/nccl-profiler-otf2 (or ~/.cache/nccl-profiler-otf2). The tests find them through
/// NCCL_OTF2_TEST_NCCL_DIR and PYTHON, which this command sets.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Arguments of cargo test
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// The C plugins that only write down what NCCL calls: what our recording is compared with. Each is made of the
/// sources whose names begin with its word.
const PROBES: [(&str, &str); 2] = [
    ("probe", "libnccl-profiler.so"),
    ("net", "libnccl-net-probe.so"),
];

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let machine = setup::everything()?;
    process::heading("build");
    // Tests start programs and load libraries of other packages, of which `cargo test` makes only some. Built together
    // with the tests, so that nothing is built a second time with the features of development dependencies.
    let targets = ["--workspace", "--lib", "--bins", "--examples", "--tests"];
    process::run(cargo::command("build").args(targets))?;
    let probes = cargo::target()?.join("debug/probe-plugin");
    build_probes(&probes)?;

    process::heading("tests");
    let mut test = cargo::command("test");
    // One run is to show all that fails.
    test.arg("--no-fail-fast");
    if !names_packages(&args.arguments) {
        test.arg("--workspace");
    }
    test.args(&args.arguments)
        .env("NCCL_OTF2_TEST_NCCL_DIR", &machine.libraries)
        .env("NCCL_OTF2_TEST_PROBE_DIR", &probes)
        .env("PYTHON", machine.python.interpreter());
    process::run(&mut test)
}

fn build_probes(out: &Path) -> Result<()> {
    let sources = cache::list(&cargo::root().join("tests/doubles/fake-gpu/probe-plugin"))?;
    cache::create(out)?;
    for (word, library) in PROBES {
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-g", "-Wall", "-Wextra", "-shared", "-fPIC", "-o"])
            .arg(out.join(library));
        process::run(
            cc.args(sources.iter().filter(|path| is_source_of(path, word)))
                .arg("-lpthread"),
        )?;
    }
    Ok(())
}

fn is_source_of(path: &Path, word: &str) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    path.extension().is_some_and(|extension| extension == "c")
        && stem.is_some_and(|stem| stem.split('_').next() == Some(word))
}

fn names_packages(arguments: &[String]) -> bool {
    let mut own = arguments.iter().take_while(|word| *word != "--");
    own.any(|word| {
        ["-p", "--package", "--workspace", "--all"].contains(&word.as_str())
            || word.starts_with("--package=")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_may_be_made_of_several_files() {
        assert!(is_source_of(Path::new("x/probe.c"), "probe"));
        assert!(is_source_of(Path::new("x/probe_tables.c"), "probe"));
        assert!(!is_source_of(Path::new("x/probe.h"), "probe"));
        assert!(!is_source_of(Path::new("x/net.c"), "probe"));
    }

    #[test]
    fn a_package_named_for_the_test_program_is_none_for_cargo() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert!(names_packages(&words("-p otf2")));
        assert!(names_packages(&words("--package=otf2 -- x")));
        assert!(!names_packages(&words("--test x -- -p")));
    }
}
