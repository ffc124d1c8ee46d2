//! `nccl-otf2 stats`.

use std::path::Path;

use serde_json::Value;

use super::fixture::Fixture;
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
    assert_eq!(csv(&["--by", "messages"]), [["from", "to", "count", "bytes", "communicator"]]);
}

#[test]
fn what_does_not_exist_is_an_error_that_says_what_does() {
    let scratch = Scratch::new();
    let trace = Fixture::sound().write(scratch.path());
    for (arguments, words) in [
        (["--comm", "nobody"], "no communicator is called nobody"),
        (["--sort", "colour"], "no table has a column \"colour\""),
        (["--from", "soon"], "is a time such as 1.5s"),
    ] {
        let (code, _, err) = stats(&scratch, &trace, &arguments);
        assert_eq!(code, Some(2), "{err}");
        assert!(err.contains(words), "{err}");
    }
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
