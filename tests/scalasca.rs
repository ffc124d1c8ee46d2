//! Scalasca's analyser (scout) finds the waiting that the last rank of a job causes: 10 ms before each of 20
//! operations.
//!
//! What it must find is what the archive says: when the operations of each rank began. That the archive says when they
//! were called is known from the program, which logs it. A busy machine makes single operations begin late after their
//! calls, so of these the median of all rounds counts.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use whole_plugin::built;
use whole_plugin::machine::{self, has, nccl_library};
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

const RANKS: usize = 4;
const ROUNDS: usize = 20;
const LATE_MS: f64 = 10.0;
const VERSIONS: [&str; 3] = ["2.27.7", "2.28.9", "2.32.3"];

/// Jobs that run at the same time make each other's ranks late.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// When the ranks called an operation, in milliseconds: by round and rank.
type Calls = Vec<[f64; RANKS]>;

/// A recorded job: the exported archive, and what the program logged.
struct Job {
    scratch: Scratch,
    archive: PathBuf,
    calls: BTreeMap<String, Calls>,
}

impl Job {
    /// Records the job in which the last rank pauses before each of these operations.
    fn record(version: &str, operation: &str) -> Option<Self> {
        if !has("scout.mpi") || !has("cube_dump") {
            // There are no packages of them, so a machine without them is no failure.
            machine::print_skipped("there is no scout.mpi (Scalasca) or no cube_dump (CubeLib) on PATH");
            return None;
        }
        let library = nccl_library(version)?;
        let scratch = Scratch::new();
        let mut job = scratch.plain(built::nccl_otf2());
        job.args(["run", "--out", "trace", "--"]).arg(built::nccl_host()).arg("--lib").arg(library);
        job.args(["--procs", &RANKS.to_string(), "--threads", "1", "--exact", "--count", "5000", "--name", "world"]);
        job.args(["--rounds", &ROUNDS.to_string(), "--ops", &format!("pause,{operation}"), "--log", "calls"]);
        job.arg(format!("--fake-gpu={}", built::fake_gpu().display()));
        let _ended = run(&mut job).with_code(0);
        let mut export = scratch.plain(built::nccl_otf2());
        export.args(["export", "--format", "scalasca", "trace", "-o", "export"]);
        let _ended = run(&mut export).with_code(0);
        let calls = calls(scratch.path());
        Some(Self { archive: scratch.path().join("export/0-world"), scratch, calls })
    }

    fn analyse(&self) {
        let mut scout = self.scratch.plain("mpirun");
        scout.args(["-np", &RANKS.to_string(), "scout.mpi", "./traces.otf2"]).current_dir(&self.archive);
        // Open MPI refuses to be run by root, and on fewer cores than processes.
        scout.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        scout.env("OMPI_MCA_rmaps_base_oversubscribe", "1").env("OMPI_MCA_mpi_yield_when_idle", "1");
        let _ended = run(&mut scout).with_code(0);
    }

    /// What scout found, in milliseconds for each rank.
    fn found(&self, metric: &str) -> [f64; RANKS] {
        let mut dump = self.scratch.plain("cube_dump");
        dump.args(["-m", metric, "-c", "roots", "-x", "incl", "-z", "incl", "-s", "csv"]);
        let dumped = run(dump.arg(self.archive.join("scout.cubex"))).with_code(0).stdout;
        let mut found = [0.0; RANKS];
        for line in dumped.lines() {
            if let [_, rank, seconds] = line.split(',').collect::<Vec<_>>()[..]
                && let (Ok(rank), Ok(seconds)) = (rank.parse::<usize>(), seconds.parse::<f64>())
            {
                found[rank] += seconds * 1000.0;
            }
        }
        found
    }
}

/// The calls that the program logged, by function.
fn calls(directory: &Path) -> BTreeMap<String, Calls> {
    let mut calls: BTreeMap<String, Calls> = BTreeMap::new();
    for process in 0..RANKS {
        for line in std::fs::read_to_string(directory.join(format!("calls.{process}.jsonl"))).expect("a log").lines() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let (Some(function), Some(round)) = (line["op"].as_str(), line["round"].as_u64()) else { continue };
            let rounds = calls.entry(function.to_owned()).or_insert_with(|| vec![[0.0; RANKS]; ROUNDS]);
            let ns = line["time_unix_ns"].as_u64().expect("a time") % 1_000_000_000_000;
            let rank = usize::try_from(line["rank"].as_u64().expect("a rank")).expect("few");
            rounds[usize::try_from(round).expect("few")][rank] =
                std::time::Duration::from_nanos(ns).as_secs_f64() * 1e3;
        }
    }
    calls
}

/// The beginnings of operations in the exported archive, in milliseconds: by round and rank.
fn begins(archive: &Path, region: &str) -> Calls {
    let printed = run(Command::new("otf2-print").arg(archive.join("traces.otf2"))).with_code(0).stdout;
    let mut rounds = vec![[0.0; RANKS]; ROUNDS];
    let mut next = [0; RANKS];
    let named = format!("\"{region}\"");
    for line in printed.lines().filter(|line| line.starts_with("ENTER") && line.contains(&named)) {
        let mut words = line.split_whitespace().skip(1);
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).expect("a number");
        let (rank, ns) = (usize::try_from(number()).expect("few"), number() % 1_000_000_000_000);
        rounds[next[rank]][rank] = std::time::Duration::from_nanos(ns).as_secs_f64() * 1e3;
        next[rank] += 1;
    }
    assert_eq!(next, [ROUNDS; RANKS]);
    rounds
}

/// How long each rank waited for the last one to come.
fn waiting_for_all(calls: &[[f64; RANKS]]) -> [f64; RANKS] {
    let mut waited = [0.0; RANKS];
    for round in calls {
        let last = round.iter().copied().fold(f64::MIN, f64::max);
        for (waited, at) in waited.iter_mut().zip(round) {
            *waited += last - at;
        }
    }
    waited
}

/// How long each rank waited for the one before it to send.
fn waiting_for_senders(sends: &[[f64; RANKS]], receives: &[[f64; RANKS]]) -> [f64; RANKS] {
    let mut waited = [0.0; RANKS];
    for (sends, receives) in sends.iter().zip(receives) {
        for (rank, waited) in waited.iter_mut().enumerate() {
            *waited += (sends[(rank + RANKS - 1) % RANKS] - receives[rank]).max(0.0);
        }
    }
    waited
}

fn sum(values: [f64; RANKS]) -> f64 {
    values.iter().sum()
}

/// How far one is from the other, of the other.
fn error(found: f64, truth: f64) -> f64 {
    (found - truth).abs() / truth
}

/// Compares the waiting in the median round, by the archive and by the program.
fn assert_fits(version: &str, archive: &[f64], program: &[f64]) {
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let off = median(archive.iter().zip(program).map(|(archive, program)| archive - program).collect());
    let truth = median(program.to_vec());
    eprintln!("NCCL {version}  in a round: program {truth:.1} ms, archive {off:+.2} ms");
    assert!(off.abs() <= 0.1 * truth, "NCCL {version}: {off} of {truth}, {archive:?} for {program:?}");
}

fn print_comparison(version: &str, operations: &str, [program, archive, found]: [f64; 3]) {
    let error = 100.0 * error(found, archive);
    eprintln!(
        "NCCL {version}  {operations:12}  program {program:7.1} ms  archive {archive:7.1} ms  \
         scout {found:7.1} ms  error {error:.1} %"
    );
}

#[test]
fn scout_finds_the_late_rank_of_all_reduces() {
    let _alone = ONE_AT_A_TIME.lock();
    for version in machine::tested(VERSIONS, |version| version) {
        let Some(job) = Job::record(version, "one") else { return };
        job.analyse();
        let (calls, begins) = (&job.calls["ncclAllReduce"], begins(&job.archive, "ncclAllReduce"));
        let rounds = |all: &Calls| -> Vec<f64> { all.iter().map(|round| sum(waiting_for_all(&[*round]))).collect() };
        let (program, archive) = (rounds(calls), rounds(&begins));
        // A busy machine makes ranks later than they are made, but none less.
        let truth: f64 = program.iter().sum();
        assert!(truth > 0.8 * LATE_MS * (ROUNDS * (RANKS - 1)) as f64, "{truth}");
        assert_fits(version, &archive, &program);
        let (archive, found) = (archive.iter().sum(), sum(job.found("mpi_wait_nxn")));
        print_comparison(version, "all-reduces", [truth, archive, found]);
        assert!(error(found, archive) <= 0.02, "NCCL {version}: {found} ms of {archive} ms");
        // It blames the last rank for what others wait where it is the last.
        let is_last = |round: &&[f64; RANKS]| round.iter().all(|at| *at <= round[RANKS - 1]);
        let late: Calls = begins.iter().filter(is_last).copied().collect();
        let (truth, blamed) = (sum(waiting_for_all(&late)), job.found("delay_n2n"));
        assert!(error(blamed[RANKS - 1], truth) <= 0.1, "NCCL {version}: {blamed:?} for {truth}");
    }
}

/// In the first round NCCL connects the ranks, each when it comes to it: messages begin later than they are called, as
/// the archive says.
#[test]
fn scout_finds_the_late_rank_of_rings() {
    let _alone = ONE_AT_A_TIME.lock();
    for version in machine::tested(VERSIONS, |version| version) {
        let Some(job) = Job::record(version, "sendrecv") else { return };
        job.analyse();
        let rounds = |sends: &Calls, receives: &Calls| -> Vec<f64> {
            sends.iter().zip(receives).map(|(send, receive)| sum(waiting_for_senders(&[*send], &[*receive]))).collect()
        };
        let program = rounds(&job.calls["ncclSend"], &job.calls["ncclRecv"]);
        let archive = rounds(&begins(&job.archive, "ncclSend begins"), &begins(&job.archive, "ncclRecv begins"));
        assert_fits(version, &archive[1..], &program[1..]);
        let (program, archive): (f64, f64) = (program.iter().sum(), archive.iter().sum());
        let found = sum(job.found("mpi_latesender"));
        print_comparison(version, "rings", [program, archive, found]);
        assert!(error(found, archive) <= 0.02, "NCCL {version}: {found} ms of {archive} ms");
        // One rank waits for the late one itself; the others wait for those who waited, which scout calls long-term.
        let (direct, longterm) = (job.found("delay_latesender"), job.found("delay_latesender_longterm"));
        let blamed: Vec<f64> = direct.iter().zip(longterm).map(|(a, b)| a + b).collect();
        let most = blamed.iter().copied().fold(f64::MIN, f64::max);
        assert!(blamed[RANKS - 1] >= most, "NCCL {version}: {blamed:?}");
    }
}
