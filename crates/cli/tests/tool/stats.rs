//! `nccl-otf2 stats`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use journal::testing::{Process, ProcessIdentity};
use otf2::CollectiveOp;
use serde_json::{Value, json};

use super::fixture::{ALL_REDUCE, BROADCAST, Fixture, SEND, Step};
use super::recording;
use super::support::{Scratch, ToolOutput};

/// What `stats` prints of an archive.
#[track_caller]
fn stats(scratch: &Scratch, trace: &Path, arguments: &[&str]) -> String {
    ToolOutput::run(scratch.tool().arg("stats").arg(trace).args(arguments)).with_code(0).stdout
}

#[test]
fn the_first_line_is_the_verdict() {
    let scratch = Scratch::new();
    let out = stats(&scratch, &Fixture::sound().write(scratch.path()), &[]);
    assert!(
        out.starts_with("Cannot tell who is late: in 1 of 2 collectives a rank or the root was not recorded\n"),
        "{out}"
    );
    assert!(out.contains("\noperations, counted on every rank\n"), "{out}");
    let row = out.lines().find(|line| line.trim().starts_with("ncclAllReduce")).expect("a row");
    let row = row.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(row.starts_with("ncclAllReduce 4 KiB 2 90 ns 100 ns"), "{row}");
}

#[test]
fn one_table_is_sorted_filtered_and_given_as_csv() {
    let scratch = Scratch::new();
    let trace = Fixture::sound().write(scratch.path());
    let csv = |arguments: &[&str]| -> Vec<Vec<String>> {
        let out = stats(&scratch, &trace, &[&["--csv"], arguments].concat());
        out.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
    };
    let rows = csv(&["--sort", "max"]);
    let column = rows[0].iter().position(|name| name == "max").expect("a column");
    let functions: Vec<(&str, &str)> = rows[1..].iter().map(|row| (row[0].as_str(), row[column].as_str())).collect();
    let sorted = [("ncclAllReduce", "100"), ("ncclBroadcast", "50"), ("ncclSend", "50"), ("ncclRecv", "45")];
    assert_eq!(functions, sorted);
    for (arguments, number) in [
        (&["--function", "send"][..], 2),
        (&["--by", "ranks", "--rank", "1"], 2),
        (&["--by", "ranks", "--rank", "0-1"], 3),
        (&["--limit", "1"], 2),
        (&["--comm", "world", "--from", "300ns"], 3),
    ] {
        assert_eq!(csv(arguments).len(), number, "{arguments:?}");
    }
    let limited = stats(&scratch, &trace, &["--by", "operations", "--limit", "1"]);
    assert!(limited.contains("\n  3 more rows: --limit shows them\n"), "{limited}");
    let messages = [["from", "to", "count", "bytes", "late_sender", "late_receiver", "communicator"]];
    assert_eq!(csv(&["--by", "messages"]), messages);
}

/// The duration of an operation that had not ended is unknown, and so is its kind of timing.
#[test]
fn what_had_not_ended_has_no_timing() {
    let scratch = Scratch::new();
    let mut fixture = Fixture::sound();
    fixture.ranks[0].extend([Step::EnterUnfinished(460, BROADCAST), Step::Leave(470, BROADCAST)]);
    fixture.ranks[1].extend([Step::EnterUnfinished(460, SEND), Step::Leave(470, SEND)]);
    fixture.span.1 = 470;
    let trace = fixture.write(scratch.path());
    let report: Value = serde_json::from_str(&stats(&scratch, &trace, &["--json"])).expect("JSON");
    let operations = report["operations"].as_array().expect("operations");
    let of = |function: &str, bytes: u64| {
        operations.iter().find(|row| row["function"] == function && row["bytes_max"] == bytes).expect("a row")
    };
    let open = of("ncclSend", 0);
    assert_eq!((&open["count"], &open["unfinished"], &open["timing"]), (&1.into(), &1.into(), &json!({})), "{open}");
    assert_eq!(of("ncclBroadcast", 64)["timing"], json!({ "proxy": 2 }));
    let out = stats(&scratch, &trace, &["--by", "operations"]);
    assert!(out.contains("  unfinished"), "{out}");
}

#[test]
fn an_empty_table_says_why_it_is_empty() {
    let scratch = Scratch::new();
    let trace = Fixture::sound().write(scratch.path());
    for (by, why) in [
        ("causes", "none found"),
        ("pairs", "links were not measured: that needs a network and NCCL_OTF2_EVENTS=standard,ProxyStep"),
        ("overlap", "kernels of the program were not recorded"),
    ] {
        let out = stats(&scratch, &trace, &["--by", by]);
        assert!(out.contains(why), "{by}: {out}");
    }
}

#[test]
fn help_defines_each_column_of_each_table() {
    let scratch = Scratch::new();
    Fixture::sound().write(scratch.path());
    let help = scratch.ends(["stats", "--help"]).with_code(0).stdout;
    let (_, columns) = help.split_once("\nColumns").expect("definitions");
    let (mut of, mut defined) = ("", BTreeMap::<&str, BTreeSet<&str>>::new());
    for line in columns.lines() {
        match line.strip_prefix("  ") {
            Some(text) => defined.entry(of).or_default().extend(text.split([' ', ',', ':'])),
            None => of = line,
        }
    }
    let common =
        defined.remove("; – is nothing, or not known. Those of several tables:").expect("those of several tables");
    for table in [
        "causes",
        "operations",
        "ranks",
        "pairs",
        "channels",
        "nic",
        "messages",
        "overlap",
        "path",
        "anomalies",
        "phase",
        "step",
        "init",
    ] {
        let own = &defined[if ["pairs", "channels"].contains(&table) { "pairs, channels" } else { table }];
        let csv = scratch.ends(["stats", "trace", "--by", table, "--csv"]).with_code(0).stdout;
        let header = csv.lines().next().expect("a header");
        for column in header.split(',') {
            assert!(own.contains(column) || common.contains(column), "{table}: {column}: {own:?}");
        }
    }
}

#[test]
fn what_does_not_exist_is_an_error_that_says_what_does() {
    let scratch = Scratch::new();
    Fixture::sound().write(scratch.path());
    for (arguments, words) in [
        ("--comm nobody", "no communicator named nobody"),
        ("--comm world,nobody", "no communicator named nobody: the archive has world"),
        ("--rank 77", "no rank 77: the archive has ranks 0 to 1"),
        ("--rank 0,77", "no rank 77"),
        ("--rank 0-4", "no rank 2: the archive has ranks 0 to 1"),
        ("--rank 1-0", "is neither a rank such as 3 nor a range such as 4-7; separate several with commas: 0,2,4-7"),
        ("--function Foo", "no function Foo: the archive has ncclAllReduce, ncclBroadcast, ncclRecv, ncclSend"),
        ("--from 99s", "--from 99.000 s is after the end of the archive, 355 ns"),
        ("--to @5", "--to is 95 ns before the beginning of the archive"),
        ("--from soon", "expected a time such as 1.5s"),
        ("--from 200ns --to 100ns", "--from 200 ns is after --to 100 ns"),
        // Rank 0 only sends.
        ("--rank 0 --function Recv", "nothing in the archive matches all of --rank 0, --function Recv"),
        ("--sort colour", "no table has a column \"colour\""),
        ("--by pairs --sort colour", "it has from, to, channel"),
        ("--by pairs --json", "--json prints the whole report, all tables: leave out --by"),
    ] {
        let ended = scratch.ends(["stats", "trace"].into_iter().chain(arguments.split(' '))).with_code(2);
        assert!(ended.stdout.is_empty() && ended.stderr.contains(words), "{arguments}: {ended:?}");
    }
}

/// All-reduces for which rank 1 is late.
fn late(scratch: &Scratch) -> PathBuf {
    let mut fixture = Fixture::sound();
    for (steps, late_ns) in fixture.ranks.iter_mut().zip([0, 3_000]) {
        let begin_and_end = |number: u64| (number * 10_000 + late_ns + number * 7 % 10, number * 10_000 + 6_000);
        let events = |(begin, end)| {
            let done = Step::End(end, CollectiveOp::Allreduce, None, 8192, 8192);
            [Step::EnterByKernels(begin, ALL_REDUCE), Step::Begin(begin), done, Step::Leave(end, ALL_REDUCE)]
        };
        *steps = (1..100).map(begin_and_end).flat_map(events).collect();
    }
    fixture.channel.clear();
    fixture.span = (10_000, 1_000_000);
    fixture.write(scratch.path())
}

/// Claims end where the data ends: overlapping losses are not added up, and no reason is given for lateness.
#[test]
fn the_text_says_what_its_numbers_do_not() {
    let scratch = Scratch::new();
    let trace = late(&scratch);
    let out = stats(&scratch, &trace, &[]);
    // The first of 99 is warm-up.
    assert!(out.starts_with("Rank 1 is late: 33 % of communication time lost\n"), "{out}");
    assert!(out.contains("If rank 1 were not late, the others would spend 294.0 µs (± "), "{out}");
    assert!(out.contains("\ncauses of lost time (times overlap and do not add up)\n"), "{out}");
    let rank_1_stats = stats(&scratch, &trace, &["--rank", "1"]);
    let said = "\n  --rank selects rows, counts and durations; the verdict, causes, channels, anomalies, phases, \
        steps and the waiting and skew in operations are those of all ranks.\n";
    assert!(rank_1_stats.contains(said) && !out.contains(said), "{rank_1_stats}");
    // Neither calls nor kernels were recorded.
    assert!(!out.contains("GPU"), "{out}");
    let help = stats(&scratch, &trace, &["--help"]);
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in ["overlap and do not add up", "weighted by 1/t²", "shortest time for each size"] {
        assert!(help.contains(said), "{said}: {help}");
    }
}

/// The verdict on a finished job, which is the same in `stats` and on the page.
fn verdict(scratch: &Scratch, job: &str) -> String {
    let finalized = scratch.ends(["finalize", job]);
    assert!(finalized.code.is_some_and(|code| code < 2), "{finalized:?}");
    let first = stats(scratch, Path::new(job), &[]).lines().next().expect("a line").to_owned();
    assert_eq!(scratch.ends(["report", "--json", job]).with_code(0).json()["verdict"]["line"], first.as_str());
    first
}

#[test]
fn jobs_of_all_sorts_have_a_verdict() {
    let scratch = Scratch::new();
    let job = |name: &str, ranks: u32, all_reduces: u64| {
        let out = scratch.join(name);
        for rank in 0..ranks {
            recording::record(&out, rank, recording::NO_PROCESS, all_reduces);
        }
        verdict(&scratch, name)
    };
    assert_eq!(job("empty", 2, 0), "This archive has no NCCL operations");
    let running = scratch.join("running");
    recording::record(&running, 0, recording::NO_PROCESS, 1);
    let ended = scratch.ends(["stats", "running"]).with_code(2);
    for said in ["no archive yet", "`nccl-otf2 top running`", "`nccl-otf2 dump running`"] {
        ended.assert_prints(said);
    }
    // Killed, with nothing recorded but the enqueueing of its operations.
    assert!(job("killed", 2, 5).contains("in 5 of 5 collectives only the enqueueing is known"));
    assert!(job("other-rank-missing", 1, 5).contains("in 5 of 5 collectives a rank or the root was not recorded"));
    let out = scratch.join("one-rank");
    let mut process = Process::begin(&out, ProcessIdentity { rank: 0, ranks: 1, in_environment: true });
    process.collective(0);
    let _part = process.end();
    assert!(verdict(&scratch, "one-rank").starts_with("No collective or message of several ranks was timed"));
}

#[test]
fn archive_of_an_older_build_is_refused_with_a_workaround() {
    let scratch = Scratch::new();
    Fixture { has_kinds: false, ..Fixture::sound() }.write(scratch.path());
    for arguments in [["stats", "trace"], ["report", "trace"]] {
        let ended = scratch.ends(arguments).with_code(2);
        ended.assert_prints("older build");
        ended.assert_prints("`nccl-otf2 finalize` again");
    }
}
