//! What `nccl-otf2 stats` derives of recorded jobs, against an independent computation by the Python package `otf2`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use whole_plugin::built;
use whole_plugin::machine::{four_gpu_stream, python, two_process_streams};
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

/// Replays a recorded job; gives what is derived and what of it was compared.
fn compared(streams: &[PathBuf]) -> Option<[Value; 2]> {
    let python = python()?;
    let scratch = Scratch::new();
    let _replayed = run(&mut scratch.replay(streams)).with_code(0);
    let mut stats = scratch.plain(built::nccl_otf2());
    stats.args(["stats", "--json"]).arg(scratch.out());
    let report = run(&mut stats).with_code(0).stdout;
    let file = scratch.path().join("report.json");
    fs::write(&file, &report).expect("a file");
    let mut reference = Command::new(python);
    reference.arg("-B").arg(built::root().join("tests/support/derived.py"));
    reference.arg(scratch.archive().anchor()).arg(file);
    let compared = run(&mut reference).with_code(0).stdout;
    Some([report, compared].map(|text| serde_json::from_str(&text).expect("JSON")))
}

#[test]
fn python_derives_the_same_of_two_processes_with_a_network() {
    let Some([report, compared]) = compared(&two_process_streams()) else { return };
    assert_eq!(compared["operations"], 24, "{compared}");
    assert_eq!(compared["steps"], 88, "{compared}");
    assert_eq!(report["run"]["instances"], 6, "{report:#}");
    assert_eq!(report["pairs"].as_array().expect("pairs").len(), 2);
    assert!(!report["verdict"]["sentence"].as_str().expect("a sentence").is_empty());
}

#[test]
fn python_derives_the_same_of_one_process_with_four_gpus() {
    let Some(stream) = four_gpu_stream() else { return };
    let Some([report, compared]) = compared(&[stream]) else { return };
    assert_eq!(compared["operations"], 4, "{compared}");
    assert_eq!(report["ranks"].as_array().expect("ranks").len(), 4);
}
