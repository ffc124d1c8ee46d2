//! `cargo xtask test`: prepares a fresh machine, then runs all tests.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, ensure};
use parking_lot::Mutex;

use crate::cargo;
use crate::process;
use crate::verbs::setup;

/// Install missing packages, fetch NCCL, build everything and run all tests
///
///   cargo xtask test                            all tests, also those of the report's page (cargo xtask page)
///   cargo xtask test -p otf2                    one package
///   cargo xtask test --test archive -- replay   tests by name
///   NCCL_OTF2_TEST_RELEASES=all cargo xtask test   on seven releases of NCCL, not on the newest only
///
/// NCCL's published library (350 MB) and two Python environments, with the otf2 reader and with
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
    let mut words = args.arguments.splitn(2, |word| word == "--");
    let (cargos, harness) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut selection = cargos.to_vec();
    if !names_packages(cargos) {
        selection.push("--workspace".to_owned());
    }
    let programs = Programs {
        waiting: Mutex::new(test_programs(&selection)?),
        failed: Mutex::new(Vec::new()),
        harness,
        variables: [
            ("NCCL_OTF2_TEST_NCCL_DIR", machine.libraries.into_os_string()),
            ("PYTHON", machine.python.interpreter().into()),
            ("NCCL_OTF2_TEST_TENSORFLOW", machine.tensorflow.interpreter().into()),
        ],
    };
    // Most tests wait for the processes that they start: two programs of as many threads as there are cores finish
    // sooner than one after the other.
    let ends = std::thread::scope(|scope| {
        let page = args.arguments.is_empty().then(|| scope.spawn(|| programs.run_page()));
        let workers = [(); 2].map(|()| scope.spawn(|| programs.run_all()));
        workers.into_iter().chain(page).map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    for end in ends {
        end.map_err(|_| anyhow!("a worker panicked"))??;
    }
    let failed = programs.failed.into_inner();
    ensure!(failed.is_empty(), "failed: {}", failed.join(" "));
    if args.arguments.is_empty() {
        process::run(cargo::command("test").args(["--workspace", "--doc", "--quiet"]))?;
    }
    Ok(())
}

fn names_packages(words: &[String]) -> bool {
    words.iter().any(|word| {
        ["-p", "--package", "--workspace", "--all"].contains(&word.as_str()) || word.starts_with("--package=")
    })
}

/// A program of tests, as cargo built it.
struct TestProgram {
    name: String,
    executable: PathBuf,
    /// The package's, where cargo would run it.
    directory: PathBuf,
}

/// The programs that take longest, the longest last.
const LONGEST: [&str; 5] = ["hostile", "recording", "tensorflow", "situations", "exports"];

/// The program of tests whose pages are opened by `cargo xtask page`.
const PAGES: &str = "tool";

/// Builds the selected tests. [`Programs`] takes the last ones first, so that no long one runs alone at the end: these
/// are programs of the root package.
fn test_programs(selection: &[String]) -> Result<Vec<TestProgram>> {
    let mut build = cargo::command("test");
    build.args(["--no-run", "--quiet", "--message-format=json-render-diagnostics"]).args(selection);
    let messages = process::output(build.stderr(Stdio::inherit()), "cargo test --no-run")?;
    let mut programs = Vec::new();
    for line in messages.lines() {
        let message: serde_json::Value = serde_json::from_str(line).context("a message of cargo")?;
        let (Some(executable), Some(true)) = (message["executable"].as_str(), message["profile"]["test"].as_bool())
        else {
            continue;
        };
        let manifest = Path::new(message["manifest_path"].as_str().unwrap_or_default());
        programs.push(TestProgram {
            name: message["target"]["name"].as_str().unwrap_or_default().to_owned(),
            executable: executable.into(),
            directory: manifest.parent().unwrap_or(manifest).to_owned(),
        });
    }
    programs.sort_by_key(|program| {
        let is_of_root = program.directory == cargo::root();
        (is_of_root, LONGEST.iter().position(|name| is_of_root && *name == program.name))
    });
    Ok(programs)
}

struct Programs<'a> {
    waiting: Mutex<Vec<TestProgram>>,
    failed: Mutex<Vec<String>>,
    /// What the user gave after `--`.
    harness: &'a [String],
    variables: [(&'static str, OsString); 3],
}

impl Programs<'_> {
    /// `cargo xtask page`, after the tests that make the pages which it opens.
    fn run_page(&self) -> Result<()> {
        let pages = {
            let mut waiting = self.waiting.lock();
            waiting.iter().position(|program| program.name == PAGES).map(|at| waiting.remove(at))
        };
        if let Some(pages) = pages
            && !self.run(&pages)?
        {
            self.failed.lock().push(pages.name);
        }
        let began = Instant::now();
        // Its path: the build has replaced the file that runs.
        let program = std::env::args_os().next().context("this program's path")?;
        let captured = process::capture(Command::new(program).arg("page"))?;
        let (text, result) = match captured.status.success() {
            true => (String::new(), "ok"),
            false => (captured.out + &captured.err, "FAILED"),
        };
        println!("{text}   {:20} {:4} s   {result}", "cargo xtask page", began.elapsed().as_secs());
        if result != "ok" {
            self.failed.lock().push("page".to_owned());
        }
        Ok(())
    }

    fn run_all(&self) -> Result<()> {
        loop {
            let next = self.waiting.lock().pop();
            let Some(program) = next else { return Ok(()) };
            if !self.run(&program)? {
                self.failed.lock().push(program.name);
            }
        }
    }

    /// Whether all tests of a program passed. Prints its output if not, or if the user asked for something of it.
    fn run(&self, program: &TestProgram) -> Result<bool> {
        let began = Instant::now();
        let mut command = Command::new(&program.executable);
        command.current_dir(&program.directory).args(self.harness).envs(self.variables.clone());
        command.env("CARGO_MANIFEST_DIR", &program.directory);
        let captured = process::capture(&mut command)?;
        let (seconds, passed) = (began.elapsed().as_secs(), captured.status.success());
        let mut text = String::new();
        if !passed || !self.harness.is_empty() {
            text = captured.out.clone() + &captured.err;
        } else {
            let skipped = captured.err.lines().filter(|line| line.starts_with("skipped: "));
            skipped.for_each(|line| text.extend([line, "\n"]));
        }
        let result = captured.after("test result: ").unwrap_or("no result");
        // One write, so that the programs' lines do not mix.
        println!("{text}   {:20} {seconds:4} s   {result}", program.name);
        Ok(passed)
    }
}
