//! How processes are paired, and which inputs are refused.

use otf2::LocationRef;
use serde_json::{Value, json};

use super::{Job, events, open, ours};
use crate::tool::made_up::{self, SECOND, Timer, process_id};
use crate::tool::nccl::Nccl;
use crate::tool::score_p::ScoreP;

#[test]
fn processes_are_found_and_named() {
    let pairs = |json: &Value| -> Vec<Value> {
        let pairs = json["pairs"].as_array().expect("pairs").iter();
        pairs.map(|pair| json!([pair["process_id"], pair["scorep"]["rank"], pair["by"]])).collect()
    };
    let expected = |added: u64, ranks: [u64; 3], by: [&str; 3]| -> Vec<Value> {
        let all = (0..).zip(ranks).zip(by);
        all.map(|((ours, theirs), by)| json!([process_id(ours) + added, theirs, by])).collect()
    };
    let scorep = ScoreP::new(Timer::Counter);
    let job = Job::new(&scorep, &Nccl::new());
    let found = job.json(&["--dry-run"]);
    assert_eq!(pairs(&found), expected(0, [0, 1, 2], ["process"; 3]));
    assert_eq!(found["clock"], "anchors");
    assert_eq!(found["archive"], Value::Null);
    // Rank 0 begins 1.010002 s after the trace.
    let begins = found["pairs"][0]["begins_after_ns"].as_i64().expect("a time");
    assert!((begins - 1_010_002_000).abs() < 10, "{begins}");
    assert!(!job.scratch.join("out").exists(), "nothing is written");
    let swapped = job.json(&["--dry-run", "--map", "0=1", "--map", "alpha:1017=0"]);
    assert_eq!(pairs(&swapped), expected(0, [1, 0, 2], ["map", "map", "process"]));
    let job = Job::new(&scorep, &Nccl { other_processes: 500, ..Nccl::new() });
    assert_eq!(pairs(&job.json(&["--dry-run"])), expected(500, [0, 1, 2], ["rank"; 3]));
    job.refused(&["--dry-run", "--map", "alpha:1500=7"], "there is no rank 7 in Score-P's trace");
}

#[test]
fn what_does_not_fit_is_refused() {
    let out = ["-o", "out"];
    let scorep = ScoreP::new(Timer::Counter);
    let job = Job::new(&scorep, &Nccl { has_anchors: false, ..Nccl::new() });
    job.refused(&out, "does not say what its clocks showed");
    assert!(!job.scratch.join("out").exists());
    // The hosts ran for an hour before the job began.
    let job = Job::new(&scorep, &Nccl { earlier: 3_600 * SECOND, ..Nccl::new() });
    job.refused(&out, "begins 3601 s after Score-P's trace");
    let guess = job.json(&["--align-start", "0.5", "-o", "out"]);
    assert_eq!(guess["clock"], "guess");
    let first = open(&job.scratch.join("out"));
    assert_eq!(first.property("NCCL::MERGED::CLOCK"), Some("guess"));
    let begin = events(&first)[&ours(0)][0].time;
    let second = u64::try_from(made_up::HOSTS[0].ticks_per_second).expect("a rate");
    // Rank 2 is on the host whose wall clock is behind, and so comes first.
    let behind = begin - scorep.time(SECOND) - second / 2;
    assert!(behind.abs_diff(second / 1000 * 8) < second / 1000, "{behind}");
    job.refused(&out, "out exists already");
    job.refused(&["-o", "out2", "--align-start=-1"], "not a number of seconds");
    for (archives, reason) in [(["out", "nccl"], "is merged already"), (["nccl", "nccl"], "none is Score-P's")] {
        job.scratch.ends([&["merge", "-o", "out2"], &archives[..]].concat()).with_code(2).assert_prints(reason);
    }
    std::fs::write(job.scorep.join("scorep.cfg"), "SCOREP_TIMER='sundial'\n").expect("settings");
    job.refused(&["-o", "out2"], "SCOREP_TIMER='sundial'");
    std::fs::remove_file(job.scorep.join("traces.otf2")).expect("gone");
    job.refused(&["-o", "out2"], "set SCOREP_ENABLE_TRACING=true");
    let left: Vec<_> = std::fs::read_dir(job.scratch.path()).expect("a directory").collect();
    // The plugin used by all tests of the tool, both archives and the merged one.
    assert_eq!(left.len(), 4, "{left:?}");
}

#[test]
fn a_damaged_archive_is_not_put_in_place() {
    let job = Job::new(&ScoreP::new(Timer::Counter), &Nccl::new());
    let file = open(&job.nccl).event_file(LocationRef::new(1));
    let bytes = std::fs::read(&file).expect("events");
    std::fs::write(&file, &bytes[..bytes.len() - 5]).expect("cut");
    job.refused(&["-o", "out"], "was truncated, or its writer did not close it: it has no end");
    std::fs::remove_file(&file).expect("gone");
    job.refused(&["-o", "out"], "missing, although it should have 4 events");
    assert!(!job.scratch.join("out").exists());
}
