//! Jobs as large as one likes, and what it takes to write their archive: `cargo xtask scale`.
//!
//! The ranks are recorded by the recording half's writer, all at once, or become parts by the writing half's, one after
//! the other; what is measured is done by a process of its own.

mod rank;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use archive::{FinalizeOptions, WriteOptions, finalize, unify, write_part};
use journal::clock;

use rank::{Job, Rank};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["finalize", out] => measured(Path::new(out), |out| {
            let done = finalize(out, &FinalizeOptions::default(), &()).expect("finalized");
            assert!(done.complete, "{:?}", done.parts.first());
            done.archive.expect("an archive").size.events
        }),
        ["unify", out] => measured(Path::new(out), |out| unify(out, &()).expect("unified").size.events),
        [verb, ranks, communicators, channels, kind, number_of, folder] => {
            let job = Job {
                ranks: number(ranks),
                communicators: number(communicators),
                channels: u8::try_from(number(channels)).expect("as NCCL has"),
                is_all_to_all: *kind == "all-to-all",
            };
            let (number_of, folder) = (u64::from(number(number_of)), Path::new(folder));
            match *verb {
                "journals" => journals(job, number_of / job.events(), folder),
                "record" => record(job, number_of / job.events(), folder),
                "parts" => parts(job, number_of, folder),
                _ => panic!("{verb}: cargo xtask scale --help"),
            }
        }
        other => panic!("{other:?}: cargo xtask scale --help"),
    }
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or_else(|_| panic!("{text}: not a number"))
}

/// Few processes with many events: from journals to the archive.
fn journals(job: Job, operations: u64, folder: &Path) {
    let out = fresh(folder);
    record(job, operations, &out);
    in_a_process_of_its_own("finalize", &out);
    fs::remove_dir_all(&out).expect("removed");
}

/// Journals that stay, for a profiler, which then looks at `finalize OUT`.
fn record(job: Job, operations: u64, out: &Path) {
    let begin = Instant::now();
    let job_ns = clock::realtime_ns();
    let mut all: Vec<Rank> = (0..job.ranks).map(|rank| Rank::begin(out, rank, job, job_ns, 0)).collect();
    for operation in 0..operations {
        all.iter_mut().for_each(|rank| rank.call(operation));
        all.iter_mut().for_each(|rank| rank.transfers(operation));
    }
    for rank in all {
        rank.end();
    }
    let (ranks, took) = (job.ranks, begin.elapsed().as_secs_f64());
    println!("{ranks} processes of {} NCCL events recorded in {took:.1} s", operations * job.events());
}

/// Many processes with few events: their parts are made in `out`, one after the other.
fn parts(job: Job, operations: u64, out: &Path) {
    let begin = Instant::now();
    let job_ns = clock::realtime_ns();
    let options = WriteOptions::default();
    for rank in 0..job.ranks {
        let mut rank = Rank::begin(out, rank, job, job_ns, clock::realtime_ns() - job_ns);
        for operation in 0..operations {
            rank.call(operation);
            rank.transfers(operation);
        }
        write_part(&rank.end(), &options, &()).expect("written");
    }
    println!("{} parts made in {:.1} s", job.ranks, begin.elapsed().as_secs_f64());
    in_a_process_of_its_own("unify", out);
}

fn fresh(folder: &Path) -> PathBuf {
    let out = folder.join(format!("scale-{}", std::process::id()));
    let created = fs::create_dir_all(folder).and_then(|()| fs::create_dir(&out));
    created.unwrap_or_else(|error| panic!("{}: {error}", out.display()));
    out
}

fn in_a_process_of_its_own(what: &str, out: &Path) {
    let program = std::env::current_exe().expect("this program");
    let status = Command::new(program).arg(what).arg(out).status();
    assert!(status.expect("started").success(), "{what} failed");
}

fn measured(out: &Path, work: impl FnOnce(&Path) -> u64) {
    let begin = Instant::now();
    let events = work(out);
    let wall = begin.elapsed().as_secs_f64();
    let status = fs::read_to_string("/proc/self/status").expect("a process");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let stat = fs::read_to_string("/proc/self/stat").expect("a process");
    let (_, fields) = stat.rsplit_once(')').expect("a name in parentheses");
    // utime and stime, in hundredths of a second.
    let ticks: Vec<u64> = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    let cpu = ticks.iter().sum::<u64>() as f64 / 100.0;
    println!(
        "{wall:.1} s, {cpu:.1} s of processor time, peak {}; {events} OTF2 events, {:.2} million a second and core",
        peak.unwrap_or("?").trim(),
        events as f64 / cpu / 1e6
    );
}
