//! Recordings that are not complete: that nobody is seen to wait is then no proof that nothing hung.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use whole_plugin::process::{FinishedProcess, run};
use whole_plugin::scratch::Scratch;

use super::job::{part_of, recorded_together, report, tool, verdict};
use super::ways::script;

fn recorded(variables: &[(&str, &str)], scripts: [&str; 3]) -> Scratch {
    let scratch = Scratch::new();
    for (rank, words) in scripts.iter().enumerate() {
        let mut host = scratch.script(&script(rank, words));
        let _ended = run(host.env("NCCL_OTF2_EVENTS", "standard").envs(variables.iter().copied()));
    }
    scratch
}

/// `hang` says that it cannot tell, with the exit code of the documentation.
pub(super) fn cannot_tell(scratch: &Scratch, path: &Path) -> FinishedProcess {
    let ended = run(tool(scratch, "hang").arg(path)).with_code(2);
    assert!(ended.stdout.starts_with("CANNOT TELL: "), "{ended}");
    ended
}

/// Neither the journals nor the archive that is made of them tell.
fn can_never_tell(scratch: &Scratch, why: &str) {
    let journals = cannot_tell(scratch, &scratch.out());
    assert!(journals.stdout.contains(why), "{journals}");
    let _finalized = scratch.finalize();
    let _kept = cannot_tell(scratch, &scratch.out());
    let _kept = fs::remove_file(scratch.out().join("hang.json"));
    let archive = cannot_tell(scratch, &scratch.out());
    assert!(archive.stdout.contains("from the archive"), "{archive}");
    let _archive = cannot_tell(scratch, &scratch.out().join("traces.otf2"));
}

const WELL: &str = "world\ndone 0\nfinalize c\nexit 0";
const KILLED: &str = "world\ndone 0\nkill 9";

#[test]
fn a_job_that_is_through_did_not_hang() {
    let scratch = recorded(&[("NCCL_OTF2_FINALIZE", "offline")], [WELL, WELL, WELL]);
    assert_eq!(verdict(&report(&scratch.out())), "nothing");
    let finalized = scratch.finalize().with_code(0);
    assert!(!finalized.stdout.contains("HANG") && !finalized.stdout.contains("CANNOT TELL"), "{finalized}");
    let said = report(&scratch.out());
    assert_eq!((verdict(&said), &said["source"]), ("nothing", &"archive".into()), "{said:#}");
    assert!(!scratch.out().join("hang.json").exists());
}

/// A part that was removed, or a process without the plugin: that the others are through does not show it.
#[test]
fn what_is_not_recorded_is_a_reason_not_to_tell() {
    let missing = "nothing is recorded about rank 2 of communicator world (3)";
    for (variable, scripts, why) in [
        (("NCCL_OTF2_FINALIZE", "inline"), [KILLED, KILLED, "exit 0"], missing),
        (("NCCL_OTF2_FINALIZE", "offline"), [WELL, WELL, "exit 0"], missing),
        (("NCCL_OTF2_EVENTS", "light"), ["world\ncalled 0\nkill 9"; 3], "whether the last operation of ranks 0-2"),
        (("NCCL_OTF2_STEPS", "5-6"), [KILLED; 3], ""),
    ] {
        can_never_tell(&recorded(&[variable], scripts), why);
    }
}

/// A journal that ends early, in a call that all others wait in.
#[test]
fn what_is_cut_off_is_not_said_to_be_missing() {
    let waits = "world\ndone 0\nwaits 1\nsleep 3s\nkill 9";
    let scratch = recorded_together([waits; 3], &[]);
    let segment = part_of(&scratch, 2).join("journal/1.0");
    let mut bytes = fs::read(&segment).expect("there");
    let used = bytes.iter().rposition(|byte| *byte != 0).expect("records");
    bytes[used * 3 / 4 / 8 * 8..].fill(0);
    fs::write(&segment, bytes).expect("cut");
    let finalized = scratch.finalize();
    let stats = || run(tool(&scratch, "stats").arg(scratch.out())).with_code(0).stdout;
    let kept = stats();
    let _kept = fs::remove_file(scratch.out().join("hang.json"));
    for said in [finalized.stdout, kept, stats()] {
        assert!(said.contains("whether rank 2 called ncclAllReduce #2 of world (3) is not recorded"), "{said}");
        assert!(
            !said.contains("had not called") && !said.contains("has not called") && !said.contains("never called"),
            "{said}"
        );
    }
}

/// The parts are written by their processes: the verdict is that on the archive, which has no names of parts.
#[test]
fn a_verdict_of_the_archive_is_kept_and_found_again() {
    let waits = "world\ndone 0\nwaits 1\nsleep 3s\nexit 0";
    let scratch = recorded(&[], ["world\ndone 0\nexit 0", waits, waits]);
    let finalized = scratch.finalize();
    let line = finalized.stdout.lines().find(|line| line.starts_with("HANG: the records of rank 0 "));
    let said = run(tool(&scratch, "hang").arg(scratch.out())).with_code(1);
    assert_eq!(said.stdout.lines().next(), line, "{finalized}");
    assert!(said.stdout.contains("kept in hang.json"), "{said}");
}

/// Nobody is in an operation: all but rank 2 are in a call that makes a connection. Too short to be sure.
#[test]
fn stats_does_not_say_that_all_is_well_where_hang_does_not() {
    let connects = "world\ndone 0\ngroup_end\nsleep 3s\nkill 9";
    let scratch = recorded_together([connects, connects, "world\ndone 0\nsleep 3s\nkill 9"], &[]);
    let hang = |path: &Path| run(tool(&scratch, "hang").arg(path).args(["--after", "1"])).with_code(1).stdout;
    let journals = hang(&scratch.out());
    let _finalized = scratch.finalize();
    let _kept = fs::remove_file(scratch.out().join("hang.json"));
    for said in [journals, hang(&scratch.out().join("traces.otf2"))] {
        assert!(said.starts_with("HANG: rank 2 ") && said.contains(" outside NCCL, and all other ranks "), "{said}");
    }
    let stats = run(tool(&scratch, "stats").arg(scratch.out())).with_code(0).stdout;
    assert!(stats.starts_with("CANNOT TELL: "), "{stats}");
}

/// Kernels that ran at the same time let the job through: `finalize` says so, and `stats` after it.
#[test]
fn an_order_that_only_concurrent_kernels_let_through_is_kept() {
    let call = |context: &str, stream: u32| {
        format!(
            "start g{context} GroupApi ctx={context} depth=1\nstate g{context} GroupStartApiStop\n\
             start a{context} CollApi ctx={context} parent=g{context} func=AllReduce count=9 datatype=ncclFloat32 \
             stream={stream}\nstop a{context}\nstate g{context} GroupEndApiStart\n\
             start k{context} KernelLaunch ctx={context} parent=g{context} stream={stream}\nstop k{context}\n\
             start o{context} Coll ctx={context} parent=a{context} func=AllReduce count=9 datatype=ncclFloat32 \
             sequence=0 channels=1 warps=8\nstop o{context}\nstop g{context}\n\
             start p{context} ProxyOp ctx={context} parent=o{context} channel=0 peer=1 steps=1 is_send=1\n\
             state p{context} ProxyOpInProgress\nstop p{context}\n"
        )
    };
    let (a, b) = (call("c", 1), call("d", 2));
    let scratch = Scratch::new();
    for (rank, calls) in [a.clone() + &b, b + &a].iter().enumerate() {
        let comms = [("c", 7, "dp"), ("d", 8, "tp")]
            .map(|(context, id, name)| format!("init {context} id={id} name={name} nodes=1 ranks=2 rank={rank}\n"));
        let mut host = scratch.script(&format!("{}{calls}finalize c\nfinalize d\nexit 0\n", comms.concat()));
        let _ended = run(host.env("NCCL_OTF2_EVENTS", "standard").env("NCCL_OTF2_FINALIZE", "offline")).with_code(0);
    }
    let line = "UNSAFE: ranks 0-1 may wait for each other forever: they use communicators in different orders";
    let journals = run(tool(&scratch, "hang").arg(scratch.out())).with_code(0);
    assert!(journals.stdout.starts_with(line), "{journals}");
    let finalized = scratch.finalize().with_code(0);
    assert!(finalized.stdout.contains(line), "{finalized}");
    let stats = run(tool(&scratch, "stats").arg(scratch.out())).with_code(0);
    assert!(stats.stdout.contains(line) && !stats.stdout.starts_with(line), "{stats}");
    fs::remove_file(scratch.out().join("hang.json")).expect("kept");
    let archive = run(tool(&scratch, "hang").arg(scratch.out())).with_code(0);
    assert!(archive.stdout.starts_with(line), "{archive}");
}

#[test]
fn a_removed_journal_is_no_proof() {
    let scratch = recorded(&[], [KILLED; 3]);
    let parts = fs::read_dir(scratch.out().join("parts")).expect("there");
    fs::remove_dir_all(parts.flatten().map(|part| part.path()).next().expect("one").join("journal")).expect("removed");
    can_never_tell(&scratch, "nothing is recorded about");
}

/// A verdict that was kept for another archive does not apply to this one.
#[test]
fn a_verdict_on_another_archive_does_not_count() {
    let scratch = recorded(&[], [KILLED, KILLED, KILLED]);
    let _finalized = scratch.finalize();
    let path = scratch.out().join("hang.json");
    assert!(!path.exists(), "nothing hung");
    let lie = r#"{"format": 1, "directory": "", "time_ns": 0, "after_ns": 0, "source": "journals", "archive_events": 1,
        "verdict": {"found": true, "kind": "hang", "line": "HANG: a lie"}, "suspects": [], "quiet": null,
        "unknown": [], "processes": [], "communicators": []}"#;
    fs::write(&path, lie).expect("written");
    let said: Value = report(&scratch.out());
    assert_eq!(verdict(&said), "nothing", "{said:#}");
    fs::write(&path, "{").expect("written");
    // The archive can be judged without it.
    let broken = run(Command::new(whole_plugin::built::nccl_otf2()).arg("hang").arg(scratch.out())).with_code(0);
    assert!(broken.stderr.contains("hang.json: not a report of `hang`"), "{broken}");
    assert!(broken.stdout.starts_with("No hang: according to the archive"), "{broken}");
}
