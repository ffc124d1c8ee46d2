//! Parts with damaged files, and what the other tests of parts share.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use whole_plugin::built;
use whole_plugin::process::{FinishedProcess, run};
use whole_plugin::scratch::Scratch;

use journal::testing::{Process, ProcessIdentity};

/// A job of two ranks, recorded and not written.
pub(crate) fn job(out: &Path) -> [PathBuf; 2] {
    [0, 1].map(|rank| {
        let who = ProcessIdentity { rank, ranks: 2, in_environment: true };
        let mut process = Process::begin(out, who);
        for sequence in 0..3 {
            process.all_reduce(sequence);
        }
        process.end()
    })
}

/// The report of `finalize --json`.
pub(crate) fn report(ended: &FinishedProcess) -> Value {
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
