//! Every command of the pages and of `--help` is run on real output, or is in [`NOT_RUN`] with the reason; every link
//! leads somewhere.
//!
//! A page's blocks of `sh` are scripts, each in a directory of its own that has the archives which the pages name.
//! Launchers and programs of others are doubles: a launcher runs its command, a program of NCCL's is a recorded job.

mod doubles;
mod links;
mod readme;
mod scripts;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use whole_plugin::built;
use whole_plugin::machine::two_process_streams;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;
use whole_plugin::synthetic::{self, Disturbance, Job, play};

use scripts::{Script, scripts_of_help, scripts_of_page};

/// Lines that are left out of their script: a part of the line, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("cargo xtask dist", "takes minutes: cargo xtask full makes the packages"),
    ("pip install", "the test of the wheel installs it"),
    ("nccl-otf2 merge", "needs a measurement of Score-P of the same job: tests/scorep, cargo xtask scorep"),
    ("nccl-otf2 check both", "as above: what merge writes"),
    ("scout.mpi", "needs Scalasca: cargo xtask scorep"),
    ("--into", "needs a trace of PyTorch, TensorFlow or JAX of the same job: tests/exports, tests/tensorflow"),
    ("nccl-otf2 dump trace", "needs a running job: tests/recording/snapshot.rs"),
    ("trace/snapshots/", "as above: what dump writes"),
    ("touch trace/dump", "as above"),
    ("--otlp http", "needs a collector: crates/cli/src/metrics/tests, tests/metrics.rs"),
    ("--listen", "runs until it is stopped: tests/metrics.rs"),
    ("sh baseline.sh", "needs GPUs and nccl-tests; what they print is tests/data/nccl-tests.txt"),
    ("node1-4711-…", "stands for the name of a part"),
];

/// What a page's archive has and the one here does not, and what this one has instead.
const INSTEAD: &[(&str, &str)] = &[
    ("--rank 3", "--rank 1"),
    ("--comm world", "--rank 0"),
    ("--from 1.5s --to 1.6s", "--to 1s"),
    ("--from 20s --to 30s", "--to 1s"),
    ("--from 20s --to 21s", "--to 1s"),
    ("--to 5s --rank", "--to 1s --rank"),
    ("--from 10s", "--from 0s"),
    ("/opt/nccl-otf2/bin/nccl-otf2", "nccl-otf2"),
    ("/var/lib/node_exporter/textfile", "textfiles"),
    ("/local/", "local-"),
    ("/opt/venv", "."),
    ("doctor ./all_reduce_perf", "doctor /bin/true"),
    ("PREFIX", "prefix"),
];

/// The batch system's id of the job, which some names of archives have.
const JOB: &str = "4711";

/// Writes what the pages call `trace`; pairs of runs and programs are links to `folder`.
fn write_files(scratch: &Scratch, folder: &Path) {
    doubles::write(folder);
    let mut recorded = scratch.replay(&two_process_streams());
    recorded.env("NCCL_OTF2_DIR", scratch.path().join("trace")).env("NCCL_OTF2_KEEP_JOURNAL", "1");
    let _recorded = run(&mut recorded).with_code(0);
    let link = |to: &Path, name: &str| symlink(to, scratch.path().join(name)).expect("a link");
    let job = Job { instances: 150, has_ranges: true, ..Job::healthy(1) };
    let late = Job { wrong: Disturbance::LateRank { rank: 1, from: 60, ns: 400_000 }, ..job.clone() };
    for (names, job) in [(["monday", "old", "baseline"], job), (["tuesday", "new", "candidate"], late)] {
        let written = folder.join(names[0]);
        let _anchor = synthetic::write(&written, &job, &play(&job));
        names.iter().for_each(|name| link(&written, name));
    }
    for name in ["train", "all_reduce_perf", "page.sh", "all-clear.sh"] {
        link(&folder.join(name), name);
    }
    let measured = built::root().join("tests/data/nccl-tests.txt");
    fs::copy(measured, scratch.path().join("baseline.txt")).expect("a copy");
    fs::create_dir(scratch.path().join("textfiles")).expect("a directory");
    let dumps = scratch.path().join("dumps");
    fs::create_dir(&dumps).expect("a directory");
    fs::write(dumps.join("rank_0"), r#"{"pg_config": {}}"#).expect("a dump of PyTorch's flight recorder");
    link(Path::new("trace"), &format!("trace-{JOB}"));
}

/// Exit codes that the reference allows for a command that was understood.
fn allowed(arguments: &str) -> &'static [i32] {
    match arguments.split(' ').next().unwrap_or_default() {
        "doctor" | "check" | "hang" => &[0, 1],
        "diff" if arguments.contains("--fail-if-slower") => &[0, 3, 4],
        _ => &[0],
    }
}

/// Runs a script; gives what went wrong.
fn problems(script: &Script, archives: &Scratch, doubles: &Path) -> Vec<String> {
    let scratch = Scratch::new();
    let mut copy = scratch.plain("cp");
    let _copied = run(copy.arg("-a").arg(archives.path().join(".")).arg(scratch.path())).with_code(0);
    let mut shell = scratch.plain("bash");
    let log = scratch.path().join("commands.log");
    shell.args(["-euo", "pipefail", "-c", &script.text]).env("COMMANDS_LOG", &log);
    shell.env("SLURM_JOB_ID", JOB).env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", doubles.display()));
    let ended = run(&mut shell);
    let log = fs::read_to_string(&log).unwrap_or_default();
    let calls = || log.lines().filter_map(|line| line.split_once(' '));
    let mut problems: Vec<String> = calls()
        .filter(|(code, arguments)| code.parse().is_ok_and(|code| !allowed(arguments).contains(&code)))
        .map(|(code, arguments)| format!("nccl-otf2 {arguments} ended with {code}"))
        .collect();
    if ended.status.code() != Some(0) {
        problems.push("the script failed".to_owned());
    }
    if calls().count() < script.commands {
        problems.push(format!("{} of its {} commands were run", calls().count(), script.commands));
    }
    if !problems.is_empty() {
        problems.push(format!("in\n{}\n{ended}", script.text));
    }
    problems
}

fn run_all(scripts: impl IntoIterator<Item = Script>) {
    let (archives, folder) = (Scratch::new(), Scratch::new());
    write_files(&archives, folder.path());
    let mut wrong = Vec::new();
    let mut run = 0;
    for script in scripts {
        run += script.commands;
        wrong.extend(
            problems(&script, &archives, folder.path())
                .into_iter()
                .map(|problem| format!("{}: {problem}", script.place)),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(run > 10, "only {run} commands were found");
}

#[test]
fn commands_of_pages() {
    let docs = built::root().join("docs");
    let folders = ["recipes", "start"].map(|folder| fs::read_dir(docs.join(folder)).expect("a folder of pages"));
    let mut pages: Vec<_> = folders.into_iter().flatten().map(|entry| entry.expect("an entry").path()).collect();
    pages.push(built::root().join("README.md"));
    pages.extend(
        ["GUIDE", "RECORDING", "HANG", "MONITORING", "EXPORTS"].map(|name| docs.join(name).with_extension("md")),
    );
    pages.sort();
    run_all(pages.iter().filter(|page| page.exists()).flat_map(|page| scripts_of_page(page)));
}

#[test]
fn commands_of_help() {
    run_all(scripts_of_help());
}
