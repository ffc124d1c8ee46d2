//! `cargo xtask fuzz`: libFuzzer searches for bytes that break a guarantee of a file reader.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::cache;
use crate::cargo;
use crate::process;

/// Fuzz code that reads files for panics, overflows, hangs and excessive memory use
///
/// The targets are in tests/fuzz. Each begins with the inputs in tests/fuzz/corpus/TARGET, which `cargo test -p fuzz`
/// replays without a fuzzer. An input that breaks a promise is left in target/fuzz/found.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Targets to run; all in turn by default
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Total time in seconds, shared by the targets
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// Do not fuzz; select the inputs of the corpus anew from all inputs found so far
    #[arg(long)]
    merge: bool,
}

/// Instruments every edge, and comparisons. Does not need a nightly compiler.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// The longest input, the time limit per input, and the memory limits.
const LIMITS: [&str; 5] =
    ["-max_len=65536", "-timeout=5", "-rss_limit_mb=1024", "-malloc_limit_mb=256", "-print_final_stats=1"];

/// The repository keeps at most this many unnamed inputs per target, none larger than [`MOST_BYTES`].
const MOST_INPUTS: usize = 24;
const MOST_BYTES: u64 = 4096;

pub(crate) fn run(args: &Args) -> Result<()> {
    let corpora = cargo::root().join("tests/fuzz/corpus");
    // Each target has a folder of inputs.
    let name = |path: &PathBuf| Some(path.file_name()?.to_string_lossy().into_owned());
    let known: Vec<String> = cache::list(&corpora)?.iter().filter_map(name).collect();
    for target in &args.targets {
        ensure!(known.contains(target), "no target {target}; the targets are: {}", known.join(", "));
    }
    let wanted = if args.targets.is_empty() { &known } else { &args.targets };
    let target = cargo::target()?.join("fuzz");
    let fuzzer = build(&target)?;
    let seconds = (args.seconds / wanted.len() as u64).max(1);
    let mut failed = Vec::new();
    for name in wanted {
        process::heading(&format!("fuzz {name} for {seconds} s"));
        let (found, kept) = (target.join("found"), target.join("corpus").join(name));
        cache::create(&found)?;
        cache::create(&kept)?;
        // Targets create their files in memory, if possible.
        let scratch = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).context("make a directory")?;
        let mut fuzz = Command::new(&fuzzer);
        fuzz.current_dir(cargo::root()).env("FUZZ_TARGET", name).env("TMPDIR", scratch.path()).args(LIMITS);
        // Threads would spend more time waiting for each other than working.
        fuzz.env("RAYON_NUM_THREADS", "1");
        let corpus = corpora.join(name);
        if args.merge {
            merge(&mut fuzz, &corpus, &kept)?;
            continue;
        }
        fuzz.arg(format!("-max_total_time={seconds}"));
        fuzz.arg(format!("-artifact_prefix={}/{name}-", found.display()));
        let dictionary = cargo::root().join("tests/fuzz/dictionaries").join(name);
        if dictionary.exists() {
            fuzz.arg(format!("-dict={}", dictionary.display()));
        }
        // New inputs go into the first folder.
        if let Err(error) = process::run(fuzz.args([kept, corpus])) {
            eprintln!("{name}: {error:#}");
            failed.push(name.as_str());
        }
    }
    ensure!(
        failed.is_empty(),
        "{}: see {}; add the input to tests/fuzz/corpus once its cause is fixed",
        failed.join(", "),
        target.join("found").display()
    );
    Ok(())
}

/// Builds the fuzzer in a separate target folder, because everything is instrumented.
fn build(target: &Path) -> Result<PathBuf> {
    process::heading("build the fuzzer");
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut build = cargo::command("build");
    build.args(["--package", "fuzz", "--features", "libfuzzer", "--bin", "fuzz"]);
    // With `--target`, build scripts and macros are not instrumented.
    build.args(["--target", &triple, "--target-dir"]).arg(target);
    build.env("RUSTFLAGS", FLAGS).env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
    process::run(&mut build)?;
    Ok(target.join(triple).join("debug/fuzz"))
}

/// Selects a small corpus with large coverage from all inputs found so far. Named inputs stay.
fn merge(fuzz: &mut Command, corpus: &Path, kept: &Path) -> Result<()> {
    let chosen = tempfile::tempdir().context("make a directory")?;
    let copy = |path: &Path, folder: &Path| {
        let to = folder.join(path.file_name().unwrap_or_default());
        fs::copy(path, to).map(drop).with_context(|| format!("copy {}", path.display()))
    };
    for path in cache::list(corpus)? {
        copy(&path, if has_name(&path) { chosen.path() } else { kept })?;
    }
    process::run(fuzz.arg("-merge=1").arg(chosen.path()).arg(kept))?;
    for path in cache::list(corpus)?.iter().filter(|path| !has_name(path)) {
        fs::remove_file(path).with_context(|| format!("remove {}", path.display()))?;
    }
    let bytes = |path: &PathBuf| fs::metadata(path).map_or(u64::MAX, |data| data.len());
    let mut new = cache::list(chosen.path())?;
    new.retain(|path| !has_name(path) && bytes(path) <= MOST_BYTES);
    new.sort_by_key(|path| Reverse(bytes(path)));
    new.iter().take(MOST_INPUTS).try_for_each(|path| copy(path, corpus))
}

/// Whether a person named an input: libFuzzer names inputs after the SHA-1 of their bytes.
fn has_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.len() != 40 || !name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
