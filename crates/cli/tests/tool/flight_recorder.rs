//! `nccl-otf2 hang --flight-recorder` on dumps that Python's `pickle` writes, with the structure of PyTorch's.

use std::process::Command;

use journal::clock;
use serde_json::Value;
use whole_plugin::machine::python;

use super::recording::{NO_PROCESS, begin};
use super::support::{Scratch, ToolOutput};

/// Dumps as PyTorch's `FlightRecorder` writes them: frames are shared, and the innermost ones are its own.
const WRITER: &str = r#"
import json, os, pickle, sys, time
torch = {"name": "all_reduce", "filename": "/venv/site-packages/torch/distributed/distributed_c10d.py", "line": 2810}
step = {"name": "train_step", "filename": "/home/me/train.py", "line": 40}
forward = {"name": "forward", "filename": "/home/me/model.py", "line": 17}
def entry(number, frame, state="completed", group=("0", "tp"), **rest):
    return {"frames": [torch, frame], "record_id": number, "pg_id": 0, "process_group": group,
        "collective_seq_id": number, "p2p_seq_id": 0, "op_id": number, "profiling_name": "nccl:all_reduce",
        "time_created_ns": time.time_ns(), "duration_ms": 0.5, "input_sizes": [[1000]], "input_dtypes": ["Float"],
        "output_sizes": [[1000]], "output_dtypes": ["Float"], "state": state, "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None, "retired": False, "timeout_ms": 600000, "is_p2p": False} | rest
def dump(*entries, groups={"0": ("tp", "[0, 1]"), "1": ("alone", "[0]")}):
    groups = {name: {"name": name, "desc": desc, "ranks": ranks} for name, (desc, ranks) in groups.items()}
    status = {"0": {"last_enqueued_collective": 3, "last_started_collective": 3, "last_completed_collective": -1}}
    return {"version": "2.10", "pg_config": groups, "comm_lib_version": "2.28.9", "pg_status": status,
        "entries": list(entries)}
def write(rank, what):
    os.makedirs("dumps", exist_ok=True)
    with open(f"dumps/nccl_trace_rank_{rank}", "wb") as file:
        file.write(what if isinstance(what, bytes) else pickle.dumps(what, 2))
alone = entry(7, step, "started", ("1", "alone"))
ahead = dump(entry(1, step, "scheduled"), entry(2, step), entry(3, forward, "started"), alone)
"#;

/// A job of which rank 0 waits for rank 1 in the third collective, and its dumps; none where there is no Python.
fn job(script: &str) -> Option<Scratch> {
    let scratch = Scratch::new();
    for (rank, calls) in [(0, 3), (1, 2)] {
        let part = format!("trace/parts/host-{}-{}", NO_PROCESS + rank, clock::realtime_ns());
        let mut process = begin(&scratch.join(&part), rank, NO_PROCESS, |_| {});
        (0..calls).for_each(|sequence| process.collective(sequence));
        process.leave();
    }
    let mut writer = Command::new(python()?);
    writer.arg("-c").arg(format!("{WRITER}\n{script}")).current_dir(scratch.path());
    assert!(writer.status().expect("Python runs").success(), "{script}");
    Some(scratch)
}

/// The report, and what was noted. Memory is limited to 1 GiB.
fn hang(scratch: &Scratch) -> (Value, String) {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 1048576; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_nccl-otf2")]);
    command.args(["hang", "trace", "--after", "0", "--json", "--flight-recorder", "dumps"]);
    let ended = ToolOutput::run(assert_cmd::Command::from_std(command).current_dir(scratch.path())).with_code(1);
    (ended.json(), ended.stderr)
}

fn evidence(report: &Value) -> Vec<&str> {
    let lines = report["verdict"]["evidence"].as_array().expect("lines").iter().filter_map(Value::as_str);
    lines.filter(|line| line.contains("group")).collect()
}

#[test]
fn the_evidence_has_group_and_line_of_the_calls() {
    let script = "write(0, ahead)\nwrite(1, dump(entry(1, forward), entry(2, step)))\nopen('dumps/log', 'w')";
    let Some(scratch) = job(script) else { return };
    let (report, notes) = hang(&scratch);
    let expected = [
        "rank 0 called all_reduce #3 in `forward (model.py:17)`, group `tp` (flight recorder)",
        "rank 1's last call of group `tp`: all_reduce #2 in `train_step (train.py:40)`, completed (flight recorder)",
    ];
    assert_eq!(evidence(&report), expected, "{notes}");
    assert!(notes.contains("left out of dumps: log"), "{notes}");
    // Neither the line nor the class of the verdict changes.
    let without = scratch.ends(["hang", "trace", "--after", "0", "--json"]).with_code(1).json();
    for field in ["line", "kind", "reason", "confidence", "next"] {
        assert_eq!(report["verdict"][field], without["verdict"][field]);
    }
}

#[test]
fn json_and_newer_protocols_are_read_too() {
    let script = "write(0, pickle.dumps(ahead, 4))\n\
        late = json.dumps(dump(entry(2, step)))\nwrite(1, late.replace('\"frames\"', '\"no_frames\"').encode())";
    let Some(scratch) = job(script) else { return };
    let (report, notes) = hang(&scratch);
    assert_eq!(
        evidence(&report)[1],
        "rank 1's last call of group `tp`: all_reduce #2, completed (flight recorder)",
        "{notes}"
    );
}

#[test]
fn what_cannot_be_joined_is_said() {
    for (script, expected) in [
        (
            "groups = {'0': ('tp', '[0, 1]'), '5': ('dp', '[0, 1]')}\n\
             write(0, dump(entry(3, step, 'started'), groups=groups))",
            "because `tp` and `dp` have the ranks of world (2)",
        ),
        ("write(0, dump(groups={'0': ('other', '[0, 4]')}))", "none in its dump has the ranks of world (2)"),
        ("write(0, dump(entry(1, step)))", "no call of group `tp` that has not completed"),
        ("write(0, dump(entry(3, step, 'started', time_created_ns=1)))", "of an earlier job"),
        ("write(5, ahead)", "rank 1: it has no dump"),
    ] {
        let Some(scratch) = job(script) else { return };
        let (report, notes) = hang(&scratch);
        assert_eq!((evidence(&report), notes.contains(expected)), (vec![], true), "{script}: {notes}");
    }
}

#[test]
fn a_dump_executes_nothing_and_exhausts_nothing() {
    for (script, expected) in [
        ("class Run:\n  def __reduce__(self): return os.system, ('touch executed',)\nwrite(0, Run())", "not executed"),
        ("write(0, pickle.dumps(ahead, 2)[:-9])", "truncated"),
        ("write(0, b'\\x80\\x02' + b']' * 1_000_000 + b'a' * 999_999 + b'.')", "invalid type: sequence"),
        ("write(0, b'\\x80\\x02' + b'N' * 9_000_000 + b'.')", "more than 8388608 values"),
        // Each group refers to all before it.
        (
            "laugh = ['ha'] * 10\nfor _ in range(100): laugh = [laugh] * 10\nwrite(0, ahead | {'entries': laugh})",
            "is not a readable dump",
        ),
        ("frames = [step] * 100_000\nwrite(0, dump(*[entry(3, step, frames=frames)] * 100_000))", "too often"),
        ("write(0, b'\\x80\\x02')\nos.truncate('dumps/nccl_trace_rank_0', 1 << 40)", "has at most 134217728"),
    ] {
        let Some(scratch) = job(script) else { return };
        let (report, notes) = hang(&scratch);
        assert_eq!((evidence(&report), notes.contains(expected)), (vec![], true), "{script}: {notes}");
        assert!(!scratch.join("executed").exists(), "{script}");
    }
}

#[test]
fn a_directory_without_dumps_is_an_error() {
    let Some(scratch) = job("os.mkdir('dumps')\nopen('dumps/rank_0', 'w').write('text')") else { return };
    let ended = scratch.ends(["hang", "trace", "--flight-recorder", "dumps"]).with_code(2);
    ended.assert_prints("dumps has no dumps of PyTorch's flight recorder: set TORCH_FR_BUFFER_SIZE=2000");
}
