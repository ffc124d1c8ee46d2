//! `nccl-otf2 stats`.

use std::path::{Path, PathBuf};

use journal::testing::{Process, Who};
use otf2::CollectiveOp;
use serde_json::Value;

use super::fixture::{ALL_REDUCE, Fixture, Step};
use super::recording;
use super::support::{Scratch, text};

fn stats(scratch: &Scratch, trace: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = scratch.tool().arg("stats").arg(trace).args(arguments).output().expect("ran");
    (output.status.code(), text(&output.stdout).to_owned(), text(&output.stderr).to_owned())
}

#[test]
fn the_first_line_is_the_verdict() {
    let scratch = Scratch::new();
    let trace = Fixture::sound().write(scratch.path());
    let (code, out, err) = stats(&scratch, &trace, &[]);
    assert_eq!(code, Some(0), "{err}");
    let first = out.lines().next().expect("a line");
    assert!(first.starts_with("The clocks do not allow to say who came late"), "{out}");
    assert!(out.contains("\noperations, counted on every rank\n"), "{out}");
    let row = out.lines().find(|line| line.trim().starts_with("ncclAllReduce")).expect("a row");
    let row = row.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(row.starts_with("ncclAllReduce 4 KiB 2 90 ns 100 ns"), "{row}");
}

#[test]
fn one_table_is_sorted_filtered_and_given_as_csv() {
    let scratch = Scratch::new();
    let trace = Fixture::sound().write(scratch.path());
    let csv = |arguments: &[&str]| {
        let (code, out, err) = stats(&scratch, &trace, &[&["--csv"], arguments].concat());
        assert_eq!(code, Some(0), "{err}");
        let rows = out.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
        rows.collect::<Vec<_>>()
    };
    let rows = csv(&["--sort", "max"]);
    let column = rows[0].iter().position(|name| name == "max").expect("a column");
    let functions: Vec<(&str, &str)> = rows[1..].iter().map(|row| (row[0].as_str(), row[column].as_str())).collect();
    let sorted = [("ncclAllReduce", "100"), ("ncclBroadcast", "50"), ("ncclSend", "50"), ("ncclRecv", "45")];
    assert_eq!(functions, sorted);
    assert_eq!(csv(&["--function", "send"]).len(), 2);
    assert_eq!(csv(&["--by", "ranks", "--rank", "1"]).len(), 2);
    assert_eq!(csv(&["--limit", "1"]).len(), 2);
    assert_eq!(csv(&["--comm", "world", "--from", "300ns"]).len(), 3);
    assert_eq!(
        csv(&["--by", "messages"]),
        [["from", "to", "count", "bytes", "late_sender", "late_receiver", "communicator"]]
    );
}

#[test]
fn an_empty_table_says_why_it_is_empty() {
    let scratch = Scratch::new();
    let trace = Fixture::sound().write(scratch.path());
    for (by, why) in [
        ("causes", "none was found"),
        ("pairs", "connections were not measured, which takes a network and NCCL_OTF2_EVENTS=standard,ProxyStep"),
        ("overlap", "kernels of the program were not recorded"),
    ] {
        let (code, out, err) = stats(&scratch, &trace, &["--by", by]);
        assert_eq!(code, Some(0), "{err}");
        assert!(out.contains(why), "{by}: {out}");
    }
}

#[test]
fn what_does_not_exist_is_an_error_that_says_what_does() {
    let scratch = Scratch::new();
    let trace = Fixture::sound().write(scratch.path());
    for (arguments, words) in [
        (["--comm", "nobody"], "no communicator is called nobody"),
        (["--comm", "world,nobody"], "no communicator is called nobody: the archive has world"),
        (["--rank", "77"], "no rank 77: the archive has ranks 0 to 1"),
        (["--rank", "0,77"], "no rank 77"),
        (["--rank", "0-1"], "is no rank such as 3; several go with commas: 0,1,2"),
        (["--function", "Foo"], "no function Foo: the archive has ncclAllReduce, ncclBroadcast, ncclRecv, ncclSend"),
        (["--from", "99s"], "--from 99.000 s is after the end of the archive, 355 ns"),
        (["--to", "@5"], "--to is 95 ns before the beginning of the archive"),
        (["--sort", "colour"], "no table has a column \"colour\""),
        (["--from", "soon"], "is a time such as 1.5s"),
    ] {
        let (code, _, err) = stats(&scratch, &trace, &arguments);
        assert_eq!(code, Some(2), "{err}");
        assert!(err.contains(words), "{err}");
    }
    // Rank 0 only sends.
    let (code, out, err) = stats(&scratch, &trace, &["--rank", "0", "--function", "Recv"]);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
    assert!(err.contains("nothing in the archive matches all of --rank 0, --function Recv"), "{err}");
    let (code, _, err) = stats(&scratch, &trace, &["--from", "200ns", "--to", "100ns"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("--from 200 ns is after --to 100 ns"), "{err}");
    let (code, _, err) = stats(&scratch, &trace, &["--by", "pairs", "--sort", "colour"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("it has from, to, channel"), "{err}");
}

#[test]
fn programs_get_the_whole_report() {
    let scratch = Scratch::new();
    let trace = Fixture::sound().write(scratch.path());
    let (_, out, _) = stats(&scratch, &trace, &["--json"]);
    let report: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&report["format"], &report["verdict"]["finding"]), (&1.into(), &"unclear".into()));
    assert_eq!(report["operations"][0]["duration_ns"]["total"], 180.0);
    let page = include_str!("../../../../docs/REFERENCE.md");
    let (_, page) = page.split_once("### `stats --json`").expect("a section");
    for name in report.as_object().expect("an object").keys() {
        assert!(page.contains(&format!("`{name}")), "{name} is not documented");
    }
}

#[test]
fn an_archive_without_nccl_has_nothing_to_compare() {
    let scratch = Scratch::new();
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/scorep-mpi-sample");
    let (code, out, err) = stats(&scratch, &sample, &[]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("There are no operations of NCCL in this archive."), "{out}");
}

/// All-reduces that rank 1 comes late to.
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

/// What is claimed ends where the data does: a time that was lost twice is not added, and "late" has no reason.
#[test]
fn the_text_says_what_its_numbers_do_not() {
    let scratch = Scratch::new();
    let trace = late(&scratch);
    let (code, out, err) = stats(&scratch, &trace, &[]);
    assert_eq!(code, Some(0), "{err}");
    // The first of 99 is warm-up.
    assert!(out.starts_with("Rank 1 comes late: 1 rank waited 294.0 µs for it"), "{out}");
    assert!(out.contains("\ncauses of lost time: times overlap and do not add up\n"), "{out}");
    let (_, of_one, _) = stats(&scratch, &trace, &["--rank", "1"]);
    let said = "\n  --rank chooses rows, counts and durations; the verdict, causes, channels, anomalies and the waiting and \
                skew in operations are of all ranks.\n";
    assert!(of_one.contains(said) && !out.contains(said), "{of_one}");
    // Neither calls nor kernels were recorded.
    assert!(!out.contains("GPU"), "{out}");
    let (_, help, _) = stats(&scratch, &trace, &["--help"]);
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in ["overlap and do not add up", "weighted by 1/t²", "least time for each size"] {
        assert!(help.contains(said), "{said}: {help}");
    }
}

/// The verdicts of `stats` and of the page of a finished job, which are one.
fn verdict(scratch: &Scratch, job: &Path) -> String {
    let finalized = scratch.tool().arg("finalize").arg(job).output().expect("ran");
    assert!(finalized.status.code().is_some_and(|code| code < 2), "{}", text(&finalized.stderr));
    let (code, out, err) = stats(scratch, job, &[]);
    assert_eq!(code, Some(0), "{err}");
    let page = scratch.tool().args(["report", "--json"]).arg(job).output().expect("ran");
    assert_eq!(page.status.code(), Some(0), "{}", text(&page.stderr));
    let page: Value = serde_json::from_slice(&page.stdout).expect("JSON");
    let first = out.lines().next().expect("a line");
    assert_eq!(page["verdict"], first);
    first.to_owned()
}

#[test]
fn jobs_of_all_sorts_have_a_verdict() {
    let scratch = Scratch::new();
    let job = |name: &str, ranks: u32, all_reduces: u64| {
        let out = scratch.join(name);
        for rank in 0..ranks {
            recording::record(&out, rank, recording::NO_PROCESS, all_reduces);
        }
        verdict(&scratch, &out)
    };
    assert_eq!(job("empty", 2, 0), "There are no operations of NCCL in this archive.");
    let running = scratch.join("running");
    recording::record(&running, 0, recording::NO_PROCESS, 1);
    let (code, _, err) = stats(&scratch, &running, &[]);
    assert_eq!(code, Some(2), "{err}");
    let path = running.display();
    for said in ["no archive yet", &format!("`nccl-otf2 top {path}`"), &format!("`nccl-otf2 dump {path}`")] {
        assert!(err.contains(said), "{err}");
    }
    // Killed, and with nothing but the enqueueing of its operations.
    assert!(job("killed", 2, 5).contains("in 5 of 5 collectives, only the enqueueing of a rank is known"));
    assert!(job("other-rank-missing", 1, 5).contains("in 5 of 5 collectives, a rank or the root was not recorded"));
    let out = scratch.join("one-rank");
    let mut process = Process::begin(&out, Who { rank: 0, ranks: 1, in_environment: true });
    process.collective(0);
    let _part = process.end();
    assert!(verdict(&scratch, &out).starts_with("No collective or message of several ranks was timed"));
}

#[test]
fn a_job_of_64_processes_is_read_by_every_verb() {
    const RANKS: u32 = 64;
    let scratch = Scratch::new();
    let out = scratch.join("job");
    let who = |rank| Who { rank, ranks: RANKS, in_environment: true };
    let mut processes: Vec<Process> = (0..RANKS).map(|rank| Process::begin(&out, who(rank))).collect();
    for sequence in 0..5 {
        for process in &mut processes {
            process.all_reduce(sequence);
        }
    }
    for process in processes {
        let _part = process.end();
    }
    verdict(&scratch, &out);
    let (_, json, _) = stats(&scratch, &out, &["--json"]);
    let report: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&report["run"]["operations"], &report["run"]["instances"]), (&320.into(), &5.into()));
    assert_eq!(report["ranks"].as_array().map(Vec::len), Some(64));
    assert_eq!((&report["run"]["processes"], &report["run"]["has_steps"]), (&64.into(), &true.into()));
    let checked = scratch.tool().arg("check").arg(&out).output().expect("ran");
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stdout));
}

#[test]
fn an_archive_of_an_older_build_is_refused_with_the_way_out() {
    let scratch = Scratch::new();
    let trace = Fixture { has_kinds: false, ..Fixture::sound() }.write(scratch.path());
    let trace = trace.to_str().expect("text");
    for arguments in [&["stats", trace][..], &["report", trace], &["diff", trace, trace]] {
        let output = scratch.tool().args(arguments).output().expect("ran");
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
        let said = text(&output.stderr);
        assert!(said.contains("older build") && said.contains("`nccl-otf2 finalize` again"), "{said}");
    }
}
