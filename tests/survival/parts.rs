//! Parts that are not what they were, and directories that go away.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use whole_plugin::built;
use whole_plugin::process::{Ended, LIMIT, run, start, wait_for};
use whole_plugin::scratch::Scratch;

use journal::testing::{Process, Who};

/// A job of two ranks, recorded and not written.
pub(crate) fn job(out: &Path) -> [PathBuf; 2] {
    [0, 1].map(|rank| {
        let who = Who { rank, ranks: 2, in_environment: true };
        let mut process = Process::begin(out, who);
        for sequence in 0..3 {
            process.all_reduce(sequence);
        }
        process.end()
    })
}

/// What `finalize --json` says of each part and the archive.
pub(crate) fn report(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended}"))
}

pub(crate) fn finalize(out: &Path) -> Command {
    let mut command = Command::new(built::nccl_otf2());
    command.args(["finalize", "--json"]).arg(out);
    command
}

/// A killed process leaves these; a disk that lost the last seconds may leave anything in them.
#[test]
fn garbage_in_any_file_of_a_written_part() {
    for (file, costs) in [("manifest", true), ("process.json", false), ("collectives", false), ("done", false)] {
        for garbage in [&b""[..], b"{", b"\xff\xfe\x00garbage", b"[]", b"{\"format\": 2}"] {
            let scratch = Scratch::new();
            let [_, part] = job(&scratch.out());
            let _written = run(&mut finalize(&scratch.out())).with_code(0);
            fs::write(part.join(file), garbage).expect("written");
            fs::remove_file(scratch.out().join("traces.otf2")).expect("removed");
            let ended = run(&mut finalize(&scratch.out()));
            let about = format!("{file}: {:?}\n{ended}", String::from_utf8_lossy(garbage));
            assert_eq!(ended.status.code(), Some(i32::from(costs)), "{about}");
            let report = report(&ended);
            let processes = if costs { 1 } else { 2 };
            assert_eq!(report["archive"]["processes"], processes, "{about}");
            if costs {
                let reason = report["parts"][1]["reason"].as_str().unwrap_or_default();
                assert!(reason.contains(file), "{about}");
            }
            scratch.archive().validate();
        }
    }
}

/// The job's directory is removed while the job records into it.
#[test]
fn a_directory_that_vanishes() {
    let scratch = Scratch::new();
    let mut command = scratch.script(
        "
        init c ranks=1 rank=0
        repeat 20 {
          repeat 2000 {
            start g GroupApi
            stop g
          }
          sleep 20ms
        }
        finalize c
        ",
    );
    let running = start(&mut command);
    let parts = scratch.out().join("parts");
    wait_for("part", || fs::read_dir(&parts).ok()?.next().map(|_| ()));
    std::thread::sleep(Duration::from_millis(30));
    let _again = fs::remove_dir_all(scratch.out());
    let _again = fs::remove_dir_all(scratch.out());
    let ended = running.wait(LIMIT).with_code(0);
    let lines = ended.our_lines();
    assert!(lines.iter().any(|line| line.contains("was removed while the job ran")), "{ended}");
}

/// Killed while the network was sending a step: the put has no completion, and nothing is wrong with that.
#[test]
fn a_step_that_was_on_its_way() {
    let scratch = Scratch::new();
    let mut command = scratch.script(
        "
        init c ranks=2 rank=0 id=0x77
        start x Coll func=AllReduce count=100 datatype=ncclInt8
        start p ProxyOp parent=x peer=1 steps=1 is_send=1
        start s ProxyStep parent=p step=0
        state s 8 bytes=100
        state s 9 bytes=100
        kill 9
        ",
    );
    let _killed = run(&mut command).by_signal(9);
    let _finalized = scratch.finalize().with_code(0);
    let archive = scratch.archive();
    assert!(archive.events().contains("RMA_PUT"), "{}", archive.events());
    archive.sound();
}
