//! Archives for Scalasca: as Pipit (a Python package) reads them, and of jobs that did not end well.
//! `tests/scalasca.rs` has the analyser read those that did.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use otf2::EventKind;
use serde_json::{Value, json};
use whole_plugin::archive::Archive;
use whole_plugin::built;
use whole_plugin::machine::{RELEASE, print_skipped, python};
use whole_plugin::process::{run, start};
use whole_plugin::scratch::Scratch;

const LIMIT: Duration = Duration::from_secs(60);

/// Three collectives that ended and one that did not, on the last of two ranks.
fn calls(rank: usize) -> String {
    let ended =
        format!("start co Coll ctx=c rank={rank} func=AllReduce count=7 datatype=ncclFloat32\nstop co\nsleep 1ms\n");
    let last = if rank == 1 { ended.replace("stop co\n", "") } else { ended.clone() };
    format!("init c id=0x55 ranks=2 rank={rank}\n{}{last}finalize c\n", ended.repeat(3))
}

#[test]
fn a_collective_that_had_not_ended_is_left_out() {
    let scratch = Scratch::new();
    let processes = [0, 1].map(|rank| start(&mut scratch.rank(rank, 2, &calls(rank))));
    processes.into_iter().for_each(|process| drop(process.wait(LIMIT).with_code(0)));
    let _whole = run(&mut scratch.tool(&["finalize", "out"])).with_code(0);
    let said = run(&mut scratch.tool(&["export", "--format", "scalasca", "out", "--json", "-o", "scalasca"])).stdout;
    let said: Value = serde_json::from_str(&said).expect("JSON");
    let world = &said["communicators"][0];
    // That of rank 1, and the same one of rank 0, which lacks its other end then.
    assert_eq!((&world["collectives"], &world["collectives_left_out"]), (&3.into(), &2.into()), "{said:#}");
    let reason = world["left_out"][0]["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("it had not ended when the recording ended"), "{said:#}");
}

/// How often a function was entered, its inclusive and its exclusive time.
type Functions = BTreeMap<String, [u64; 3]>;

/// What an archive has of functions and of bytes from rank to rank. No two events of a location share a time.
fn read_archive(archive: &Archive) -> (Functions, Vec<Vec<u64>>) {
    let reader = archive.reader();
    let definitions = reader.definitions().expect("definitions");
    let (mut functions, locations) = (Functions::new(), definitions.locations.len());
    let mut bytes = vec![vec![0; locations]; locations];
    for (rank, location) in definitions.locations.keys().enumerate() {
        let (mut last, mut open) = (None, Vec::new());
        let read = reader.for_each_event(&[*location], |_, event| {
            assert!(last < Some(event.time), "{last:?}: {event:?}");
            last = Some(event.time);
            match event.kind {
                EventKind::Enter(_) => open.push((event.time, 0)),
                EventKind::Leave(region) => {
                    let (begin, within) = open.pop().expect("entered");
                    let took = event.time - begin;
                    if let Some((_, within)) = open.last_mut() {
                        *within += took;
                    }
                    let name = definitions.string(definitions.regions[&region].name).expect("a name");
                    let sum = functions.entry(name.to_owned()).or_default();
                    *sum = [sum[0] + 1, sum[1] + took, sum[2] + took - within];
                }
                EventKind::MpiIsend { message, .. } => {
                    bytes[rank][usize::try_from(message.peer).expect("few")] += message.bytes;
                }
                _ => {}
            }
            ControlFlow::Continue(())
        });
        read.expect("events");
    }
    (functions, bytes)
}

fn read_with_pipit(scratch: &Scratch, directory: &Path) -> Option<Value> {
    let python = python()?;
    let Some(pipit) = std::env::var_os("NCCL_OTF2_TEST_PIPIT").map(PathBuf::from) else {
        // It is in no package index, so a machine without it is no failure.
        print_skipped(
            "NCCL_OTF2_TEST_PIPIT names no folder with the source of Pipit (https://github.com/hpcgroup/pipit)",
        );
        return None;
    };
    let mut read = scratch.plain(python);
    read.arg("-B").arg(built::root().join("tests/support/pipit.py")).arg(pipit).arg(directory);
    Some(serde_json::from_str(&run(&mut read).with_code(0).stdout).expect("JSON"))
}

#[test]
fn pipit_reads_functions_and_messages() {
    let scratch = Scratch::new();
    let words = ["--procs", "2", "--threads", "2", "--rounds", "4", "--ops", "allreduce,sendrecv,allgather"];
    let Some(mut job) = scratch.run_nccl(RELEASE, &["--events", "full"], &words) else { return };
    let _ran = run(&mut job).with_code(0);
    let ended = run(&mut scratch.tool(&["export", "--format", "scalasca", "out", "--json", "-o", "scalasca"]));
    let said: Value = serde_json::from_str(&ended.with_code(0).stdout).expect("JSON");
    let said = &said["communicators"][0];
    let directory = scratch.path().join(said["archive"].as_str().expect("an archive"));
    let directory = directory.parent().expect("a folder");
    let archive = Archive::open(directory);
    archive.validate();
    let (functions, bytes) = read_archive(&archive);
    if let Some(pipit) = read_with_pipit(&scratch, directory) {
        assert_eq!(pipit, json!({"functions": functions, "bytes": bytes}));
    }

    // The same as in the archive that it was made of, but for what was moved.
    let number = |name: &str| said[name].as_u64().expect("a number");
    assert!(number("events_moved") > 0 && number("moved_ns") < 100, "{said}");
    assert_eq!(number("collectives_left_out") + number("messages_left_out"), 0, "{said}");
    let regions = scratch.archive().regions();
    let operations = |name: &str| -> Vec<_> {
        let is_one =
            |region: &&whole_plugin::regions::Region| region.name == name && region.number("nccl.seq").is_some();
        regions.iter().filter(is_one).collect()
    };
    for (name, shown) in [("ncclAllReduce", "NCCL AllReduce"), ("ncclAllGather", "NCCL AllGather")] {
        let (all, [count, took, own]) = (operations(shown), functions[name]);
        let wanted: u64 = all.iter().map(|region| region.end_ns - region.start_ns).sum();
        assert_eq!((count, own), (all.len() as u64, took), "{name}");
        assert!(took.abs_diff(wanted) <= count * number("moved_ns"), "{name}: {took} for {wanted}");
    }
    let sent: u64 = bytes.iter().flatten().sum();
    let sends = regions.iter().filter(|region| region.name == "NCCL Send");
    let wanted: u64 = sends.map(|region| region.number("nccl.bytes").expect("a size")).sum();
    assert_eq!(sent, wanted);
    assert!(sent > 0);
}
