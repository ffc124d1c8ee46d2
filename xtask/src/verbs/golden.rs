//! `cargo xtask golden`: what the tool makes of recorded jobs, to compare before and after a change.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::cache;
use crate::cargo::{self, Tools};
use crate::nccl;
use crate::process::{self, heading};
use crate::python::Python;

/// Write the tool's outputs for recorded jobs (archives, answers, exports) as text to diff
///
///   cargo xtask golden target/golden/before                        before a change that changes no output
///   cargo xtask golden target/golden/after target/golden/before    after it: names the files that differ
///
/// The first call records 23 jobs of NCCL 2.23.4, 2.28.9 and 2.32.3 on emulated devices and keeps their journals in
/// target/golden/jobs; delete this folder to record anew. Later calls read the same journals, so that all times are
/// equal. The order of events in the exports kineto, perfetto and xplane is not fixed: their lines are sorted, or their
/// size is compared.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Folder to create
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// An earlier one to compare with
    #[arg(value_name = "BEFORE")]
    before: Option<PathBuf>,
}

const RELEASES: [&str; 3] = ["2.23.4", "2.28.9", "2.32.3"];

/// A name, variables and arguments of `nccl-host`.
type Job = (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);

const JOBS: [Job; 7] = [
    ("all", &[], &["--ops", "all", "--exact"]),
    ("graphs", &[], &["--ops", "graph,repeat", "--iterations", "3"]),
    ("flight", &[("NCCL_OTF2_MODE", "flight"), ("NCCL_OTF2_FLIGHT_SIZE", "4M")], &["--ops", "one", "--rounds", "300"]),
    ("steps", &[("NCCL_OTF2_STEPS", "20-40")], &["--ops", "repeat", "--iterations", "60"]),
    ("late", &[], &["--ops", "pause,one", "--pause", "40", "--rounds", "8"]),
    ("stuck", &[], &["--ops", "one,late", "--skip-last", "1", "--timeout", "8"]),
    ("killed", &[], &["--ops", "one", "--rounds", "0", "--kill-after", "2", "--kill-rank", "1", "--timeout", "8"]),
];
/// CUDA events time operations from 2.28 on.
const EVENTS: Job = ("events", &[("NCCL_OTF2_GPU", "events")], &["--ops", "all"]);

pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!(!args.out.exists(), "{} exists", args.out.display());
    let tools = Tools::build()?;
    let root = cargo::target()?.join("golden");
    let jobs = root.join("jobs");
    if !jobs.is_dir() {
        record(&tools, &root)?;
    }
    heading("outputs");
    let mut names: Vec<PathBuf> = fs::read_dir(&jobs)?.map(|job| Ok(job?.path())).collect::<Result<_>>()?;
    names.sort();
    for job in &names {
        let name = job.file_name().unwrap_or_default();
        println!("   {}", name.display());
        outputs(&tools, job, &root.join("work"), &args.out.join(name))?;
    }
    args.before.as_ref().map_or(Ok(()), |before| compare(before, &args.out))
}

fn record(tools: &Tools, root: &Path) -> Result<()> {
    let (_, libraries) = nccl::releases(&RELEASES, Python::ensure_reader)?;
    let staging = root.join("recording");
    let _left_over = fs::remove_dir_all(&staging);
    heading("record");
    for (release, library) in RELEASES.iter().zip(&libraries) {
        let with_events = (*release != "2.23.4").then_some(EVENTS);
        for (name, variables, arguments) in JOBS.into_iter().chain(with_events) {
            println!("   {name} {release}");
            let job = staging.join(format!("{name}-{release}"));
            cache::create(&job)?;
            let mut host = Command::new(&tools.nccl_host);
            process::without(&mut host, &["NCCL_", "RANK", "WORLD_SIZE"]);
            host.current_dir(&job).arg("--lib").arg(library).arg(format!("--fake-gpu={}", tools.fake_gpu.display()));
            host.args(["--procs", "2", "--threads", "2"]).args(arguments).envs(variables.iter().copied());
            host.env("NCCL_PROFILER_PLUGIN", &tools.plugin).env("NCCL_OTF2_DIR", job.join("trace"));
            host.env("NCCL_OTF2_EVENTS", "full").env("NCCL_OTF2_KEEP_JOURNAL", "1");
            // Jobs that are killed or stuck fail on purpose.
            let _status = process::capture(&mut host)?;
            ensure!(job.join("trace/parts").is_dir(), "{name} {release} recorded nothing");
        }
    }
    fs::rename(&staging, root.join("jobs")).context("put the jobs in place")
}

/// Everything that the tool makes of a job, in files below `out`. The copy has the same path for each job and call,
/// because outputs name it.
fn outputs(tools: &Tools, job: &Path, work: &Path, out: &Path) -> Result<()> {
    let _last = fs::remove_dir_all(work);
    process::output(Command::new("cp").arg("-r").args([job, work]), "cp")?;
    cache::create(out)?;
    let out = out.canonicalize()?;
    let shell = |script: &str| {
        process::output(Command::new("sh").current_dir(work).args(["-euc", script, "sh"]).arg(&out), "sh").map(drop)
    };
    shell(AS_RECORDED)?;
    let write = |name: &str, command: &mut Command| -> Result<()> {
        let captured = process::capture(command.current_dir(work))?;
        let text = format!("{}{}{}\n", captured.out, captured.err, captured.status);
        fs::write(out.join(name), text).with_context(|| format!("write {name}"))
    };
    let tool = |words: &[&str]| {
        let mut command = Command::new(&tools.nccl_otf2);
        command.args(words).arg("trace");
        command
    };
    // From the journals, before there is an archive, and after it.
    write("hang-journals", &mut tool(&["hang", "--json"]))?;
    write("finalize", &mut tool(&["finalize", "--json", "--keep-journal"]))?;
    write("otf2-print", Command::new("otf2-print").arg("trace/traces.otf2"))?;
    write("otf2-print-definitions", Command::new("otf2-print").args(["-G", "trace/traces.otf2"]))?;
    for verb in ["info", "check", "stats", "hang", "print", "metrics --once"] {
        let mut words: Vec<&str> = verb.split(' ').collect();
        words.push("--json");
        write(&verb.replace(' ', ""), &mut tool(&words))?;
    }
    write("stats.txt", &mut tool(&["stats"]))?;
    for format in ["kineto", "perfetto", "jsonl", "parquet", "xplane", "scalasca", "chakra", "nccl-tests"] {
        let file = if format == "xplane" { "profile.xplane.pb" } else { format };
        write(&format!("export-{format}"), &mut tool(&["export", "--format", format, "--out", file]))?;
    }
    write("report", &mut tool(&["report", "--out", "page.html"]))?;
    shell(CONTENTS)
}

/// Leaves of a job what its processes recorded.
const AS_RECORDED: &str = "
    cd trace
    rm -rf traces traces.otf2 traces.def
    for part in parts/*; do (cd $part; rm -rf done manifest traces collectives remote-transfers); done
";

/// The exports' files: as they are where their order is fixed, else sorted, else their sizes. Of what a running job
/// would be told, what depends on the time of the call is left out.
const CONTENTS: &str = r#"
    cp -r jsonl nccl-tests chakra parquet "$1"
    for file in kineto/*; do tr ',' '\n' < "$file" | sort > "$1/$(basename "$file").sorted"; done
    wc -c perfetto profile.xplane.pb page.html > "$1/sizes"
    for archive in scalasca/*/; do [ -f $archive/traces.otf2 ] && otf2-print $archive/traces.otf2; done > "$1/scalasca"
    sed -E -i 's/"[a-z_]*_ns": ?[0-9]+/"ns"/g; s/[0-9.]+ (s|min|h|days) /TIME /g' "$1"/hang* "$1"/metrics--once
"#;

fn compare(before: &Path, after: &Path) -> Result<()> {
    heading("compare");
    let difference = process::capture(Command::new("diff").arg("-rq").args([before, after]))?;
    print!("{}{}", difference.out, difference.err);
    ensure!(difference.status.success(), "outputs differ");
    println!("   all outputs are equal");
    Ok(())
}
