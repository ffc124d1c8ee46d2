//! What `nccl-otf2 stats` derives: of recorded jobs, against an independent computation by the Python package
//! `otf2`; and of a job that runs on. What was done to real NCCL is found in `tests/situations/real.rs`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use whole_plugin::built;
use whole_plugin::machine::{four_gpu_stream, python, two_process_streams};
use whole_plugin::process::{Running, run, start};
use whole_plugin::scratch::Scratch;

/// The report of `stats --json`.
fn stats(scratch: &Scratch) -> String {
    let mut stats = scratch.plain(built::nccl_otf2());
    run(stats.args(["stats", "--json"]).arg(scratch.out())).with_code(0).stdout
}

/// Replays a recorded job; gives the report, and what Python compared.
fn compared(streams: &[PathBuf]) -> Option<[Value; 2]> {
    let python = python()?;
    let scratch = Scratch::new();
    let _replayed = run(&mut scratch.replay(streams)).with_code(0);
    let report = stats(&scratch);
    let file = scratch.path().join("report.json");
    fs::write(&file, &report).expect("a file");
    let mut reference = Command::new(python);
    reference.arg("-B").arg(built::root().join("tests/support/derived.py"));
    reference.arg(scratch.archive().anchor()).arg(file);
    let compared = run(&mut reference).with_code(0).stdout;
    Some([report, compared].map(|text| serde_json::from_str(&text).expect("JSON")))
}

#[test]
fn python_derives_the_same_of_recorded_jobs() {
    let two = two_process_streams().to_vec();
    for (streams, operations, ranks, pairs) in
        [(Some(two), 24, 2, 2), (four_gpu_stream().map(|stream| vec![stream]), 4, 4, 0)]
    {
        let Some([report, compared]) = streams.and_then(|streams| compared(&streams)) else { continue };
        assert_eq!(compared["operations"], operations, "{compared}");
        let number = |rows: &str| report[rows].as_array().expect("a list").len();
        assert_eq!((number("ranks"), number("pairs")), (ranks, pairs), "{report:#}");
    }
}

/// A group of three collectives shares a kernel; one after it has its own.
#[test]
fn a_bandwidth_of_few_collectives_says_of_how_many() {
    let scratch = Scratch::new();
    let words = ["--exact", "--procs", "2", "--threads", "1", "--rounds", "5", "--ops", "group,one"];
    let Some(mut job) = scratch.nccl("2.32.3", &words) else {
        return;
    };
    let _ended = run(&mut job).with_code(0);
    let said = run(scratch.tool(&["stats", "--by", "operations"]).arg(scratch.out())).with_code(0).stdout;
    assert!(said.contains("busbw and transfer_busbw are those of 10 of 40 collectives: the others"), "{said}");
}

/// All-reduces without end, a millisecond apart.
fn calls(rank: usize) -> String {
    format!(
        "
        init c id=0x55 ranks=2 rank={rank}
        repeat 1000000 {{
          start co Coll ctx=c rank={rank} func=AllReduce count=7 datatype=ncclFloat32
          stop co
          sleep 1ms
        }}
        "
    )
}

#[test]
fn a_snapshot_of_a_flight_recording_has_a_verdict() {
    let scratch = Scratch::new();
    let processes = [0, 1].map(|rank| {
        let mut command = scratch.rank(rank, 2, &calls(rank));
        command.env("NCCL_OTF2_MODE", "flight");
        start(&mut command)
    });
    scratch.wait_for_recording(2);
    let _dumped = run(scratch.tool(&["dump"]).arg(scratch.out())).with_code(0);
    processes.into_iter().for_each(Running::kill);
    let mut snapshots = fs::read_dir(scratch.out().join("snapshots")).expect("snapshots");
    let snapshot = snapshots.next().expect("a snapshot").expect("a folder").path();
    let text = run(scratch.tool(&["stats"]).arg(&snapshot)).with_code(0).stdout;
    assert!(text.starts_with("Cannot tell who is late: in "), "{text}");
    let json = run(scratch.tool(&["stats", "--json"]).arg(&snapshot)).with_code(0).stdout;
    let report: Value = serde_json::from_str(&json).expect("JSON");
    assert!(report["operations"][0]["count"].as_u64() > Some(0), "{report:#}");
    let page = run(scratch.tool(&["report", "--json"]).arg(&snapshot)).with_code(0).stdout;
    let page: Value = serde_json::from_str(&page).expect("JSON");
    assert_eq!(page["verdict"]["line"], report["verdict"]["line"]);
}
