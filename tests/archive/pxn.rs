//! PXN: the proxy of another process of the node does the network's work. It gets the context and the parent of the
//! process that asked, which mean nothing in its own; both processes' events are in one archive.

use std::path::Path;
use std::process::Command;

use whole_plugin::archive::{Archive, trace_files};
use whole_plugin::built;
use whole_plugin::machine::skip;
use whole_plugin::process::{LIMIT, run, start};
use whole_plugin::scratch::Scratch;

/// The process that asks; its handles go to the other.
const ASKS: &str = "
    init c id=9 ranks=2 rank=0
    start x Coll func=AllReduce count=1 datatype=ncclFloat32
    give c
    give x
    stop x
    take done
    finalize c
";

/// Its neighbour. The context of ProxyStep is foreign too, its parent is not.
const WORKS: &str = "
    init own id=9 ranks=2 rank=1
    take c
    take x
    start p ProxyOp ctx=c parent=x channel=3 peer=1 steps=1 is_send=1 pid=4242
    expect-handle non-NULL
    start s ProxyStep ctx=c parent=p step=0
    state s ProxyStepSendWait bytes=64
    stop s
    stop p
    give p
    set done p
    give done
    finalize own
";

/// Starts both, each as the rest of the line `before`, and waits for their ends.
fn both(scratch: &Scratch, asks: &str, works: &str, before: &[&str], adjust: impl Fn(&mut Command)) {
    let both = [("asks", asks), ("works", works)].map(|(name, script)| {
        let mut command = scratch.named_script(name, script, &built::plugin());
        adjust(&mut command);
        let Some((program, options)) = before.split_first() else {
            return start(&mut command);
        };
        let mut other = scratch.command(program);
        other.args(options).arg(command.get_program()).args(command.get_args()).env("NCCL_OTF2_EVENTS", "full");
        start(&mut other)
    });
    for running in both {
        let _ended = running.wait(LIMIT).with_code(0);
    }
}

/// Runs both through the table of one version; their archive has no faults.
fn archive_of(scratch: &Scratch, table: u32, asks: &str, works: &str, before: &[&str]) -> Archive {
    both(scratch, asks, works, before, |command| {
        command.args(["--table", &table.to_string()]);
    });
    let _finalized = scratch.finalize().with_code(0);
    let archive = scratch.sound_archive();
    assert_eq!(archive.properties()["NCCL::PARTS"].lines().count(), 2);
    archive
}

fn given(folder: &Path, name: &str) -> u64 {
    std::fs::read_to_string(folder.join(format!("{name}.handle"))).expect("was given").parse().expect("a number")
}

/// The names of all rows, each with the process that it is one of, in brackets as in the names of GPUs.
fn locations(archive: &Archive) -> Vec<(String, String)> {
    let definitions = archive.definitions();
    let locations = definitions.lines().filter(|line| line.starts_with("LOCATION  ")).map(|line| {
        let quoted: Vec<&str> = line.split('"').collect();
        let [_, name, _, group, ..] = quoted[..] else { panic!("a row without group: {line}") };
        let process = group.rsplit('[').next().expect("a part").trim_end_matches(']');
        (name.to_owned(), format!("[{process}]"))
    });
    locations.collect()
}

#[test]
fn the_work_for_another_process_names_its_origin() {
    let scratch = Scratch::new();
    let archive = archive_of(&scratch, 7, ASKS, WORKS, &[]);
    assert_eq!(archive.count("PROXYOP::WRITTEN"), 1);
    assert_eq!(archive.count("PROXYSTEP::WRITTEN"), 1);

    // The transfer is on a thread of the process that worked, and names the rank that asked.
    let locations = locations(&archive);
    let row = locations.iter().find(|(name, _)| name.starts_with("proxy thread "));
    let (_, worker) = row.unwrap_or_else(|| panic!("no proxy thread: {locations:#?}"));
    let worker = worker.trim_start_matches('[').trim_end_matches(']');
    let group_of = |rank: u32| {
        let location = format!("NCCL world (2) rank {rank}");
        locations.iter().find(|(name, _)| *name == location).map(|(_, owner)| owner.clone()).expect("a row of the rank")
    };
    let owner = group_of(0);
    assert_eq!(format!("[{worker}]"), group_of(1));
    let whose = format!("rank 0 of world (2) {owner}");
    let events = archive.events();
    let origin = events.lines().find(|line| line.contains("nccl.origin\""));
    let origin = origin.unwrap_or_else(|| panic!("no origin in {events}"));
    assert!(origin.contains(&whose), "{whose} in {origin}");
    let properties = archive.properties();
    assert_eq!(properties["NCCL::PXN::TRANSFERS"], "1");
    assert_eq!(properties.get("NCCL::PXN::UNRESOLVED"), None);
    let line = &properties["NCCL::PXN::LIST"];
    let expected = format!("{whose} by {worker}: 1 transfers, 64 bytes sent, 0 bytes received, ");
    assert!(line.starts_with(&expected), "{line}");
    let parent = given(scratch.path(), "x").to_string();
    let pid = events.lines().any(|line| line.contains("nccl.origin_pid") && line.contains("; 4242)"));
    assert!(pid, "{events}");
    // The collective's own id, and the parent of the transfer.
    assert!(events.matches(&parent).count() >= 2, "no {parent} twice in\n{events}");
}

/// Containers number their processes each from 1: what is known of a process is more than its id.
#[test]
fn processes_of_equal_ids_stay_apart() {
    // A process id namespace each, as containers have.
    let apart = ["unshare", "--pid", "--fork"];
    let first = Command::new(apart[0]).args(&apart[1..]).args(["sh", "-c", "echo $$"]).output();
    if !first.is_ok_and(|output| output.stdout == b"1\n") {
        return skip("no process id namespaces here");
    }
    let scratch = Scratch::new();
    let asks = ASKS.replace("stop x", "start a ProxyOp parent=x peer=1 steps=1\nstop a\nstop x");
    // As NCCL passes it: the id that both have.
    let works = WORKS.replace("pid=4242", "pid=1");
    let archive = archive_of(&scratch, 7, &asks, &works, &apart);
    assert_eq!(archive.count("COLL::WRITTEN"), 1);
    assert_eq!(archive.count("PROXYOP::WRITTEN"), 2);
    assert_eq!(archive.count("PROXYSTEP::WRITTEN"), 1);
    assert_eq!(archive.count("COLL::DUPLICATE"), 0);
    assert_eq!(archive.count("PROXYOP::DUPLICATE"), 0);
    // Only what came with the other's context, which its id does not tell.
    assert_eq!(archive.count("FOREIGN"), 2);
    let regions = archive.regions();
    let origins: Vec<_> = regions.iter().filter_map(|region| region.text("nccl.origin")).collect();
    assert!(origins.iter().all(|origin| origin.starts_with("rank 0 of world (2) ")), "{origins:?}");
    assert_eq!(origins.len(), 2, "the transfer and its step");
}

/// 2.23.4 gives the events of another's transfer the context of the communicator that does the sending: only the parent
/// and the process id say that they are another's.
#[test]
fn a_transfer_for_another_process_has_the_wrong_context() {
    let scratch = Scratch::new();
    let works = WORKS.replace("ctx=c", "ctx=own");
    let archive = archive_of(&scratch, 1, ASKS, &works, &[]);
    assert_eq!(archive.count("PROXYOP::WRITTEN"), 1);
    assert_eq!(archive.count("PROXYSTEP::WRITTEN"), 1);
    // Its context is one of ours, its process is not: it is shown apart from our transfers, with its step.
    assert_eq!(archive.count("FOREIGN"), 2);
    assert_eq!(archive.count("PROXYOP::ORPHAN"), 1);
    let regions = archive.regions();
    let work: Vec<_> =
        regions.iter().filter(|region| matches!(region.name.as_str(), "netSend" | "send step")).collect();
    assert!(work.iter().all(|region| region.text("nccl.comm").is_none()), "{work:#?}");
    let origin = |name: &str| work.iter().find(|region| region.name == name)?.text("nccl.origin_pid");
    assert_eq!((origin("netSend"), work.len()), (Some("4242"), 2), "{work:#?}");
    let parent = given(scratch.path(), "x").to_string();
    let events = archive.events();
    assert!(events.matches(&parent).count() >= 2, "no {parent} twice in\n{events}");
    let pid = events.lines().any(|line| line.contains("nccl.origin_pid") && line.contains("; 4242)"));
    assert!(pid, "{events}");
}

/// Time and bytes of the transfer count for the operation, whichever process is written first.
#[test]
fn the_network_time_counts_for_the_operation() {
    let scratch = Scratch::new();
    both(&scratch, ASKS, WORKS, &[], |command| {
        command.env("NCCL_OTF2_FINALIZE", "offline");
    });
    let finalize = |directory: &Path, options: &[&str]| {
        let _finalized = run(scratch.tool(&["finalize"]).args(options).arg(directory)).with_code(0);
    };
    let mut archives = Vec::new();
    for (shards, options) in [
        (&[][..], &[][..]),
        (&["0/2", "1/2"], &["--keep-journal"]),
        (&["1/2", "0/2"], &["--keep-journal"]),
        (&["0/2", "1/2"], &[]),
        (&["1/2", "0/2"], &[]),
    ] {
        let directory = scratch.path().join(format!("shards{}", archives.len()));
        assert!(Command::new("cp").arg("-r").args([&scratch.out(), &directory]).status().expect("cp").success());
        for shard in shards {
            finalize(&directory, &[options, &["--shard", shard]].concat());
        }
        finalize(&directory, &[]);
        let archive = Archive::open(&directory);
        let _report = archive.check();
        assert_eq!(archive.properties()["NCCL::PXN::COUNTED"], "1");
        let events = archive.events();
        // Of the collective alone only the enqueueing would be known.
        let said = |name: &str, value: &str| {
            let mut lines = events.lines();
            lines.any(|line| line.contains(name) && line.contains(value))
        };
        assert!(said("nccl.timing", "\"proxy\""), "{events}");
        assert!(said("nccl.wire_bytes_sent", "; 64)"), "{events}");
        archives.push(trace_files(&directory));
        // Kept where it was asked for, and removed where it was not.
        let parts = std::fs::read_dir(directory.join("parts")).expect("parts");
        let kept = parts.map(|part| part.expect("an entry").path().join("journal").exists());
        let expected = [!options.is_empty(); 2];
        assert_eq!(kept.collect::<Vec<bool>>(), expected);
    }
    assert!(archives.windows(2).all(|two| two[0] == two[1]));
}
