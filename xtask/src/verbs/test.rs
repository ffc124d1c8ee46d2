//! `cargo xtask test`: everything a fresh machine needs, then all tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{self, Profile};
use crate::failure::{Context as _, Result};
use crate::process;
use crate::report;
use crate::verbs::setup;

const HELP: &str = "\
Installs what is missing, fetches NCCL, builds everything and runs all tests.

Usage: cargo xtask test [ARGUMENTS OF cargo test]

  cargo xtask test                            all tests
  cargo xtask test -p otf2                    one package
  cargo xtask test --test real_nccl -- ring   tests by name

NCCL's published libraries (250 to 350 MB each) and a Python environment with the otf2 reader are kept in
$XDG_CACHE_HOME/nccl-profiler-otf2 (or ~/.cache/nccl-profiler-otf2). The tests find them through
NCCL_OTF2_TEST_NCCL_DIR and PYTHON, which this command sets.
";

/// Runs the command.
pub(crate) fn run(words: &[String]) -> Result<()> {
    if let [word] = words
        && (word == "-h" || word == "--help")
    {
        print!("{HELP}");
        return Ok(());
    }
    let machine = setup::everything()?;

    report::heading("build");
    // Tests start built programs and load built libraries of other packages: `cargo test` alone makes only some.
    cargo::build(Profile::Debug, &[])?;
    let probes = cargo::target()?.join("debug/probe-plugin");
    build_probes(&probes)?;

    report::heading("tests");
    let mut test = cargo::command();
    // One run is to show all that fails.
    test.args(["test", "--locked", "--no-fail-fast"]);
    if !names_packages(words) {
        test.arg("--workspace");
    }
    test.args(words)
        .env("NCCL_OTF2_TEST_NCCL_DIR", &machine.libraries)
        .env("NCCL_OTF2_TEST_PROBE_DIR", &probes)
        .env("PYTHON", machine.python.interpreter());
    process::run(&mut test)
}

/// The C plugins that only write down what NCCL calls: what our recording is compared with. Each is made of the
/// sources whose names begin with its word.
const PROBES: [(&str, &str); 2] = [
    ("probe", "libnccl-profiler.so"),
    ("net", "libnccl-net-probe.so"),
];

fn build_probes(out: &Path) -> Result<()> {
    let folder = cargo::root().join("tests/doubles/fake-gpu/probe-plugin");
    std::fs::create_dir_all(out).or_fail(|| format!("create {}", out.display()))?;
    for (word, library) in PROBES {
        let entries = folder
            .read_dir()
            .or_fail(|| format!("list {}", folder.display()))?;
        let mut sources: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| is_source_of(path, word))
            .collect();
        sources.sort();
        process::run(
            Command::new("cc")
                .args(["-O1", "-g", "-Wall", "-Wextra", "-shared", "-fPIC", "-o"])
                .arg(out.join(library))
                .args(sources)
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
    arguments
        .iter()
        .take_while(|word| *word != "--")
        .any(|word| {
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
