//! PXN: the proxy of another process of the node does the network's work. It gets the context and the parent of the
//! process that asked, which mean nothing in its own; both processes' events are in one archive.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use whole_plugin::archive::Archive;
use whole_plugin::built;
use whole_plugin::process::start;
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

fn process(scratch: &Scratch, name: &str, script: &str) -> Command {
    std::fs::write(scratch.path().join(name), script).expect("write the script");
    let mut command = scratch.command(built::plugin_host());
    command.args(["script", name, "--plugin"]);
    command.arg(built::plugin());
    command.env("NCCL_OTF2_EVENTS", "full");
    command
}

fn given(folder: &Path, name: &str) -> u64 {
    let text = std::fs::read_to_string(folder.join(format!("{name}.handle")));
    text.expect("was given").parse().expect("a number")
}

#[test]
fn the_work_for_another_process_is_on_lanes_of_its_own_with_its_origin() {
    let scratch = Scratch::new();
    let asks = start(&mut process(&scratch, "asks", ASKS));
    let works = start(&mut process(&scratch, "works", WORKS));
    let limit = Duration::from_secs(60);
    for running in [asks, works] {
        let _ended = running.wait(limit).with_code(0);
    }
    let _finalized = scratch.finalize().with_code(0);
    let archive: Archive = scratch.archive();
    archive.validate();
    let report = archive.check();
    assert_eq!(report["faults"], 0, "{report}");
    assert_eq!(archive.properties()["NCCL::PARTS"].lines().count(), 2);
    assert_eq!(archive.count("PROXYOP::WRITTEN"), 1);
    assert_eq!(archive.count("PROXYSTEP::WRITTEN"), 1);

    // What is needed to resolve it into the operation is there: the context in the row's name, pid and parent.
    let printed = Command::new("otf2-print").arg(archive.anchor()).output();
    let events = String::from_utf8_lossy(&printed.expect("otf2-print").stdout).into_owned();
    let definitions = Command::new("otf2-print")
        .arg("-G")
        .arg(archive.anchor())
        .output();
    let definitions =
        String::from_utf8_lossy(&definitions.expect("otf2-print").stdout).into_owned();
    let context = format!("net <foreign {:#x}>", given(scratch.path(), "c"));
    assert!(
        definitions.contains(&context),
        "no {context} in\n{definitions}"
    );
    let parent = given(scratch.path(), "x").to_string();
    let pid = events
        .lines()
        .any(|line| line.contains("nccl.origin_pid") && line.contains("; 4242)"));
    assert!(pid, "{events}");
    // The collective's own id, and the parent of the transfer.
    assert!(
        events.matches(&parent).count() >= 2,
        "no {parent} twice in\n{events}"
    );
}
