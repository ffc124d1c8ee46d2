//! Launches of operations: what the archive and its export to Kineto state is what was recorded, whichever thread
//! reports the operations.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use journal::clock;
use journal::testing::{all_reduce, start};
use nccl_events::ids::EventId;
use nccl_events::{Body, Name, event};
use otf2::{Archive, AttributeValue, EventKind, LocationRef};
use serde_json::Value;

use super::recording::{NO_PROCESS, begin};
use super::support::Scratch;

/// Operations by event id, each with the event id of its launch; `None`: a graph launched it.
type Launches = BTreeMap<u64, Option<u64>>;

/// Records a group of two collectives with a launch each, whose operations are reported after both launches, and two
/// replays of a captured collective.
fn record(out: &Path, by_callback: bool) -> Launches {
    let mut process = begin(&out.join("parts/host-0"), 0, NO_PROCESS, |_| {});
    let (context, rank) = (process.context, process.rank);
    let mut callback = process.thread("cuda-EvtHandlr");
    let [launch, operation] = process.all_reduce(0).map(EventId::get);
    let mut launches = Launches::from([(operation, Some(launch))]);
    for (graph_captured, sequence) in [(false, 1), (true, 3)] {
        let on_main = |parent: EventId, body| start(context, parent.get(), rank, body);
        let group = Body::GroupApi(event::GroupApi { graph_captured, depth: 2 });
        let group = process.main.start(&on_main(EventId::NONE, group));
        let calls = [0; 2].map(|_| {
            let func = Name::from_cstr(c"AllReduce");
            let call = Body::CollApi(event::CollApi { func, graph_captured, ..event::CollApi::default() });
            let call = process.main.start(&on_main(group, call));
            process.main.stop(call.get());
            call
        });
        let own = [0; 2].map(|_| {
            let launch = Body::KernelLaunch(event::KernelLaunch { stream: 0x5000 });
            let launch = process.main.start(&on_main(group, launch));
            process.main.stop(launch.get());
            Some(launch.get()).filter(|_| !graph_captured)
        });
        let is_late = by_callback || graph_captured;
        if is_late {
            process.main.stop(group.get());
        }
        for (sequence, (call, launch)) in (sequence..).zip(calls.into_iter().zip(own)) {
            let slot = if is_late { &mut callback } else { &mut process.main };
            let plan = slot.start(&start(context, 0, rank, Body::Group(event::Group {})));
            let operation = slot.start(&start(context, call.get(), rank, all_reduce(sequence, plan.get())));
            for event in [operation, plan] {
                slot.stop(event.get());
            }
            process.channels(operation, clock::monotonic_ns());
            launches.insert(operation.get(), launch);
        }
        if !is_late {
            process.main.stop(group.get());
        }
    }
    process.end_thread(callback);
    process.end();
    launches
}

/// What the operations of the archive state, and the ids of its launches.
fn stated(out: &Path) -> (Launches, Vec<u64>) {
    let archive = Archive::open(&out.join("traces.otf2")).expect("an archive");
    let definitions = archive.definitions().expect("definitions");
    let locations: Vec<LocationRef> = definitions.locations.keys().copied().collect();
    let (mut operations, mut launches) = (Launches::new(), Vec::new());
    let read = archive.for_each_event(&locations, |_, event| {
        let EventKind::Enter(region) = event.kind else {
            return ControlFlow::Continue(());
        };
        let number = |name: &str| {
            let is_it = |of| definitions.string(definitions.attributes[of].name) == Some(name);
            event.attributes.iter().find_map(|(of, value)| match value {
                AttributeValue::U64(number) if is_it(of) => Some(*number),
                _ => None,
            })
        };
        match definitions.string(definitions.regions[&region].canonical_name).expect("a name") {
            name if name.starts_with("nccl::operation::") => {
                operations.insert(number("nccl.event").expect("an id"), number("nccl.launch"));
            }
            name if name.starts_with("nccl::launch::") => launches.extend(number("nccl.event")),
            _ => assert_eq!(number("nccl.launch"), None),
        }
        ControlFlow::Continue(())
    });
    read.expect("events");
    (operations, launches)
}

/// For each kernel of the export, by its operation: the event where its arrow begins.
fn arrows(exported: &Value) -> BTreeMap<u64, Option<u64>> {
    let events = exported["traceEvents"].as_array().expect("events");
    let arrow = |phase: &str, event: &Value| {
        let is_it = |arrow: &&Value| {
            arrow["ph"] == phase && ["ts", "pid", "tid"].iter().all(|field| arrow[field] == event[field])
        };
        events.iter().find(is_it).map(|arrow| arrow["id"].to_string())
    };
    let of = |category: &'static str| events.iter().filter(move |event| event["cat"] == category);
    let id = |event: &Value| event["args"]["nccl.event"].as_u64().expect("an id");
    let from: BTreeMap<String, u64> =
        of("cuda_runtime").filter_map(|event| Some((arrow("s", event)?, id(event)))).collect();
    of("kernel").map(|kernel| (id(kernel), from.get(&arrow("f", kernel).expect("an arrow")).copied())).collect()
}

/// A rank that only entered a call, as one that hangs does, has a file with the call.
#[test]
fn a_rank_without_operations_has_a_file() {
    let scratch = Scratch::new();
    let out = scratch.join("trace");
    let mut process = begin(&out.join("parts/host-0"), 0, NO_PROCESS, |_| {});
    let call = Body::CollApi(event::CollApi { func: Name::from_cstr(c"AllReduce"), ..event::CollApi::default() });
    process.main.start(&start(process.context, 0, process.rank, call));
    process.end();
    scratch.ends(["finalize", "trace"]).with_code(0);
    scratch.ends(["export", "--format", "kineto", "trace", "-o", "kineto"]).with_code(0);
    let file = fs::read_dir(scratch.join("kineto")).expect("a folder").next().expect("a file").expect("a file");
    assert!(fs::read_to_string(file.path()).expect("a file").contains("\"name\": \"ncclAllReduce\""));
}

#[test]
fn operations_name_their_launch_whichever_thread_reports_them() {
    for by_callback in [false, true] {
        let scratch = Scratch::new();
        let out = scratch.join("trace");
        let recorded = record(&out, by_callback);
        scratch.ends(["finalize", "trace"]).with_code(0);
        scratch.ends(["export", "--format", "kineto", "trace", "-o", "kineto"]).with_code(0);
        let exported = fs::read_dir(scratch.join("kineto")).expect("a folder").next().expect("a file").expect("a file");
        let exported = fs::read_to_string(exported.path()).expect("a file");
        // A replay has no launch: its enqueueing stands for it.
        let expected = recorded.iter().map(|(id, launch)| (*id, launch.or(Some(*id)))).collect();
        assert_eq!(arrows(&serde_json::from_str(&exported).expect("JSON")), expected, "by callback: {by_callback}");

        let (operations, launches) = stated(&out);
        assert_eq!(operations, recorded, "by callback: {by_callback}");
        assert!(recorded.values().flatten().all(|launch| launches.contains(launch)), "{launches:?}");
    }
}
