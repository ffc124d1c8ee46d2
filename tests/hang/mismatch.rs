//! Ranks that do not call the same collectives: the archive, `check` and the end of `finalize` report it, and report
//! nothing where ranks agree.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use whole_plugin::machine::{RELEASE, tested};
use whole_plugin::process::{LIMIT, Running, run, start};
use whole_plugin::scratch::Scratch;

use crate::job::{Hanging, suspect};

/// A collective as NCCL 2.28 and later report it: the call, and the operation that it enqueues.
fn call(func: &str, count: u64, datatype: &str, more: &str) -> String {
    format!(
        "
        start call CollApi func={func} count={count} datatype={datatype} {more}
        start x Coll parent=call func={func} count={count} datatype={datatype} {more}
        stop x
        stop call
        "
    )
}

fn sum(count: u64) -> String {
    call("AllReduce", count, "ncclFloat32", "")
}

fn broadcast(root: u32) -> String {
    call("Broadcast", 64, "ncclInt8", &format!("root={root}"))
}

/// A job with a script for each rank, through the table of one version.
fn job(table: u32, ranks: &[String]) -> Scratch {
    let scratch = Scratch::new();
    let size = ranks.len();
    let begin = |rank: usize, script: &String| {
        let script = format!("init c id=7 name=world ranks={size} rank={rank}\n{script}");
        start(scratch.rank(rank, size, &script).args(["--table", &table.to_string()]))
    };
    let running: Vec<Running> = ranks.iter().enumerate().map(|(rank, script)| begin(rank, script)).collect();
    for one in running {
        let _ended = one.wait(LIMIT);
    }
    scratch
}

/// What the archive and the tool report about its ranks.
#[derive(Debug, Default, PartialEq, Eq)]
struct JobFindings {
    /// Properties, without `NCCL::`.
    properties: BTreeMap<String, String>,
    /// Broken rules of `check` about communication.
    rules: Vec<String>,
    /// The line after the summary of `finalize`.
    closing: Option<String>,
}

fn findings(scratch: &Scratch) -> JobFindings {
    let finalized = scratch.finalize();
    let archive = scratch.archive();
    let properties = archive.properties().into_iter().filter_map(|(name, value)| {
        let name = name.strip_prefix("NCCL::")?;
        let is_about = ["MISMATCH", "RANKS_BEHIND", "MATCHING_UNKNOWN"].iter().any(|about| name.starts_with(about));
        is_about.then(|| (name.to_owned(), value))
    });
    let report = archive.check();
    assert_eq!(report["faults"], 0, "the archive itself is sound: {report}");
    let rules = report["rules"].as_object().expect("rules").keys();
    JobFindings {
        properties: properties.collect(),
        rules: rules.filter(|rule| rule.starts_with('C') && *rule != "C11").cloned().collect(),
        closing: finalized.stdout.lines().find(|line| line.starts_with("MISMATCH")).map(str::to_owned),
    }
}

fn end() -> String {
    "finalize c\n".to_owned()
}

/// Three ranks; the last does something else in the second collective.
fn odd_one(usual: &str, odd: &str) -> JobFindings {
    let script = |second: &str| sum(10) + second + &sum(10) + &end();
    let ranks = [script(usual), script(usual), script(odd)];
    findings(&job(7, &ranks))
}

#[test]
fn who_calls_something_else_is_named() {
    let cases = [
        ("function", "C14", sum(10), broadcast(0), "AllReduce of 10 ncclFloat32", "Broadcast of 64 bytes root 0"),
        ("count", "C15", sum(10), sum(11), "AllReduce of 10 ncclFloat32", "AllReduce of 11 ncclFloat32"),
        (
            "datatype",
            "C16",
            sum(10),
            call("AllReduce", 10, "ncclInt32", ""),
            "AllReduce of 10 ncclFloat32",
            "AllReduce of 10 ncclInt32",
        ),
        ("root", "C17", broadcast(1), broadcast(2), "Broadcast of 64 bytes root 1", "Broadcast of 64 bytes root 2"),
        (
            "order",
            "C18",
            sum(20) + &broadcast(0),
            broadcast(0) + &sum(20),
            "AllReduce of 20 ncclFloat32",
            "Broadcast of 64 bytes root 0",
        ),
    ];
    for (kind, rule, usual, odd, most, one) in cases {
        let line = format!("world (3): collective 2: ranks 0-1 {most}; rank 2 {one}");
        let name = kind.to_uppercase();
        let properties = BTreeMap::from([
            (format!("MISMATCH::{name}"), "1".to_owned()),
            (format!("MISMATCH::{name}::LIST"), line.clone()),
        ]);
        let closing = Some(format!("MISMATCH between ranks: {kind}: {line}"));
        let expected = JobFindings { properties, rules: vec![rule.to_owned()], closing };
        assert_eq!(odd_one(&usual, &odd), expected);
    }
}

/// The interfaces of NCCL 2.23 to 2.26 report only what is enqueued; the first three not even the rank at `init`.
#[test]
fn what_is_enqueued_shows_it_where_calls_are_not_recorded() {
    for table in [1, 2, 3, 4] {
        let script = |rank: u32, count: u64| {
            let sum = |count: u64| {
                format!(
                    "start x Coll rank={rank} comm_hash=99 func=AllReduce count={count} datatype=ncclFloat32\nstop x\n"
                )
            };
            sum(10) + &sum(count) + &sum(10) + &end()
        };
        let scratch = job(table, &[script(0, 10), script(1, 77)]);
        let found = findings(&scratch);
        assert_eq!(found.rules, ["C15"], "table {table}: {found:#?}");
        let line = &found.properties["MISMATCH::COUNT::LIST"];
        let what = ": collective 2: rank 0 AllReduce of 10 ncclFloat32; rank 1 AllReduce of 77 ncclFloat32";
        assert!(line.ends_with(what), "table {table}: {line}");
    }
}

#[test]
fn what_ranks_may_do_differently_is_no_mismatch() {
    let message =
        |func: &str, peer: u32| format!("start m P2p func={func} count=5 datatype=ncclInt8 peer={peer}\nstop m\n");
    let (sends, receives) = (message("Send", 1), message("Recv", 0));
    let ranks = [
        // Bytes are bytes, sends and receives concern two ranks, and a root does not matter where there is none.
        call("Broadcast", 16, "ncclInt8", "root=0") + &sends + &sends + &sum(3) + &end(),
        receives.clone()
            + &call("Broadcast", 4, "ncclFloat32", "root=0")
            + &call("AllReduce", 3, "ncclFloat32", "root=1")
            + &receives
            + &end(),
    ];
    assert_eq!(findings(&job(7, &ranks)), JobFindings::default());
}

#[test]
fn ranks_that_were_killed_earlier_are_behind_and_no_mismatch() {
    let times = |count: u64| format!("repeat {count} {{\n{}\n}}\nkill 9\n", sum(10));
    let ranks = [times(40), times(40), times(17), times(39)];
    let found = findings(&job(7, &ranks));
    let line = "world (4): rank 2 had called 17 of 40 collectives when the recording ended\nworld (4): rank 3 had called 39 of 40 collectives when the recording ended";
    let properties = BTreeMap::from([
        ("RANKS_BEHIND".to_owned(), "2".to_owned()),
        ("RANKS_BEHIND::LIST".to_owned(), line.to_owned()),
    ]);
    let expected = JobFindings { properties, rules: vec!["C19".to_owned()], closing: None };
    assert_eq!(found, expected);
}

/// Nothing is known to be wrong with a rank, but not everything about it is known.
#[test]
fn where_records_are_lost_nothing_is_claimed() {
    let ranks = [sum(10), sum(10), sum(11)].map(|first| first + &end());
    let scratch = job(7, &ranks);
    let damaged = std::fs::read_dir(scratch.out().join("parts")).expect("parts");
    let mut damaged = damaged.map(|part| part.expect("an entry").path().join("manifest"));
    let is_of_rank_2 = |text: &String| text.contains("\"rank\":2,\"size\":3");
    let (path, text) = damaged
        .find_map(|path| {
            let text = std::fs::read_to_string(&path).expect("a manifest");
            is_of_rank_2(&text).then_some((path, text))
        })
        .expect("the part of rank 2");
    // As a full disk leaves it: five calls and their operations began and have no record.
    let lost = text.replacen("\"lost\":0", "\"lost\":5", 20);
    assert_ne!(lost, text);
    let begun = lost.replacen("\"started\":2", "\"started\":12", 1);
    assert_ne!(begun, lost);
    std::fs::write(path, begun).expect("written");
    std::fs::remove_file(scratch.out().join("traces.otf2")).expect("the archive was there");
    let found = findings(&scratch);
    assert_eq!(found.rules, ["C20"], "{found:#?}");
    assert_eq!(found.properties["MATCHING_UNKNOWN::LIST"], "world (3): rank 2: records were lost");
    assert_eq!(found.properties.len(), 2, "{found:#?}");
}

/// NCCL itself: everything it can do, on hosts of their own and not, is no mismatch.
#[test]
fn nccl_itself_gives_no_false_alarm() {
    let hosts = ["--exact", "--procs", "2", "--threads", "3", "--hosts"];
    let arguments = [&hosts[..], &["--ops", "all,graph", "--rounds", "2", "--count", "1000"]].concat();
    for release in tested(["2.27.7", "2.30.7", "2.32.3"], |release| release) {
        let scratch = Scratch::new();
        let Some(mut job) = scratch.nccl(release, &arguments) else { return };
        let _ended = run(&mut job).with_code(0);
        assert_eq!(findings(&scratch), JobFindings::default(), "NCCL {release}");
        let judged = run(scratch.tool(&["hang"]).arg(scratch.out())).with_code(0);
        assert!(judged.stdout.starts_with("No hang: "), "NCCL {release}: {judged}");
    }
}

/// NCCL itself: a rank that names another number of elements. `hang` names it while the job hangs and when it is dead,
/// and so does the archive.
#[test]
fn nccl_itself_lets_ranks_call_different_collectives() {
    let arguments = ["--name", "world", "--procs", "2", "--threads", "2", "--ops", "one,mismatch"];
    let Some(job) = Hanging::start(RELEASE, &[], &arguments) else { return };
    let _there = job.until("3000", |report| {
        let sequence = &report["communicators"][0]["sequences"][0];
        sequence["first_incomplete"]["position"] == 2 && sequence["entered"] == json!([0, 1, 2, 3])
    });
    let check = |report: &Value| {
        assert_eq!((suspect(report).0, suspect(report).1), ("mismatch", 3), "{report:#}");
        let calls = &report["communicators"][0]["sequences"][0]["mismatch"]["calls"];
        let calls = [0, 1].map(|at| (calls[at]["ranks"].clone(), calls[at]["count"].clone()));
        assert_eq!(calls, [(json!([0, 1, 2]), json!(100_000)), (json!([3]), json!(8))], "{report:#}");
    };
    check(&job.until("3000", |report| suspect(report).0 == "mismatch"));
    let dead = job.kill();
    check(&dead.report("3000"));
    let found = findings(dead.scratch());
    let line = &found.properties["MISMATCH::COUNT::LIST"];
    let what = "world (4): collective 2: rank 3 AllReduce of 8 ncclFloat32; ranks 0-2 AllReduce of ";
    assert!(line.starts_with(what), "{line}");
    assert_eq!(found.properties["MISMATCH::COUNT"], "1");
    assert_eq!(found.rules, ["C15"], "{found:#?}");
}
