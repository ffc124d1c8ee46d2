//! Real NCCL, merged into a trace as Score-P would have written it in the same processes on this machine: by the
//! readings of clocks that the plugin made, its events must be where this machine's clocks say.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use journal::clock::{self, ClockPair, TickSource};
use otf2::records::{Attribute, ClockProperties, Location, LocationGroup, Region, SystemTreeNode};
use otf2::{
    Archive, ArchiveWriter, AttributeRef, AttributeType, AttributeValue, Attributes, LocationGroupRef,
    LocationGroupType, LocationRef, LocationType, RegionRef, StringRef, SystemTreeNodeRef,
};
use whole_plugin::archive::Archive as Judged;
use whole_plugin::machine::RELEASE;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

/// What Score-P calls a timer, and what it shows.
type Timer = (&'static str, fn(&ClockPair) -> u64);

const TIMERS: [Timer; 3] = [
    ("tsc", |pair| pair.ticks),
    ("clock_gettime", |pair| pair.monotonic_raw_ns),
    ("gettimeofday", |pair| pair.realtime_ns / 1000),
];

fn open(directory: &Path) -> Archive {
    Archive::open(&directory.join("traces.otf2")).expect("an archive")
}

/// Host and number of each process of an archive.
fn processes(archive: &Archive) -> Vec<(String, u64)> {
    let definitions = archive.definitions().expect("definitions");
    let groups = definitions.location_groups.values();
    let processes = groups.filter(|group| group.group_type == LocationGroupType::Process).map(|group| {
        let node = &definitions.system_tree_nodes[&group.system_tree_parent];
        let id = group.properties.iter().find_map(|(name, value)| match value {
            AttributeValue::U64(id) if definitions.string(*name) == Some("NCCL::PROCESS_ID") => Some(*id),
            _ => None,
        });
        (definitions.string(node.name).expect("a name").to_owned(), id.expect("a process id"))
    });
    processes.collect()
}

/// What Score-P would have written of these processes, if each had begun and ended when the clocks were read.
fn write_scorep(directory: &Path, (name, shows): Timer, processes: &[(String, u64)], pairs: &[ClockPair; 2]) {
    std::fs::create_dir_all(directory).expect("a directory");
    let settings = format!("SCOREP_TIMER='{name}'\n");
    std::fs::write(directory.join("scorep.cfg"), settings).expect("settings");
    let mut archive = ArchiveWriter::create(directory, "traces").expect("an archive");
    archive.set_creator("Score-P 8.4").expect("a creator");
    let [first, last] = pairs.each_ref().map(shows);
    let main = RegionRef::new(0);
    for (rank, (_, id)) in (0..).zip(processes) {
        let location = LocationRef::new(rank);
        let mut to = archive.event_writer(location).expect("a writer");
        let mut attributes = Attributes::new();
        attributes.add(AttributeRef::new(0), AttributeValue::U64(*id)).expect("an attribute");
        to.program_begin(first, StringRef::new(0), &attributes).expect("an event");
        to.enter(first, main, Attributes::NONE).expect("an event");
        to.leave(last, main, Attributes::NONE).expect("an event");
        to.close().expect("events");
        archive.local_definitions(location).and_then(|local| local.close()).expect("local definitions");
    }
    let elapsed_ns = pairs[1].monotonic_raw_ns - pairs[0].monotonic_raw_ns;
    let rate = u128::from(last - first) * 1_000_000_000 / u128::from(elapsed_ns);
    let resolution = match name {
        "tsc" => u64::try_from(rate).expect("a rate"),
        "clock_gettime" => 1_000_000_000,
        _ => 1_000_000,
    };
    let clock = ClockProperties {
        timer_resolution: resolution,
        global_offset: first,
        trace_length: last - first,
        realtime_timestamp: u64::MAX,
    };
    define(&mut archive, &clock, processes).expect("definitions");
    archive.close().expect("an archive");
}

fn define(archive: &mut ArchiveWriter, clock: &ClockProperties, processes: &[(String, u64)]) -> otf2::Result<()> {
    let mut to = archive.definitions()?;
    to.clock_properties(clock)?;
    let texts = ["main", "Linux", "machine", &processes[0].0, "node", "Process", "ProcessId"];
    for (number, text) in (0..).zip(texts) {
        to.string(StringRef::new(number), text)?;
    }
    let named = StringRef::new;
    let root = SystemTreeNodeRef::new(0);
    to.system_tree_node(root, &SystemTreeNode { name: named(1), class_name: named(2), ..SystemTreeNode::default() })?;
    let host = SystemTreeNodeRef::new(1);
    let node = SystemTreeNode { name: named(3), class_name: named(4), parent: root, ..SystemTreeNode::default() };
    to.system_tree_node(host, &node)?;
    for (rank, _) in (0..).zip(processes) {
        let process = LocationGroup {
            name: named(5),
            group_type: LocationGroupType::Process,
            system_tree_parent: host,
            creator: LocationGroupRef::UNDEFINED,
            properties: Vec::new(),
        };
        to.location_group(LocationGroupRef::new(rank), &process)?;
        let thread = Location {
            name: named(0),
            location_type: LocationType::CpuThread,
            number_of_events: 3,
            group: LocationGroupRef::new(rank),
            properties: Vec::new(),
        };
        to.location(LocationRef::new(rank.into()), &thread)?;
    }
    to.region(RegionRef::new(0), &Region { name: named(0), ..Region::default() })?;
    let process_id =
        Attribute { name: named(6), description: StringRef::UNDEFINED, attribute_type: AttributeType::U64 };
    to.attribute(AttributeRef::new(0), &process_id)
}

/// Times of the events of each location, by name.
fn times(archive: &Archive) -> BTreeMap<String, Vec<u64>> {
    let definitions = archive.definitions().expect("definitions");
    let all: Vec<LocationRef> = definitions.locations.keys().copied().collect();
    let mut times: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    archive
        .for_each_event(&all, |location, event| {
            let name = definitions.locations[&location].name;
            let name = definitions.string(name).expect("a name").to_owned();
            times.entry(name).or_default().push(event.time);
            ControlFlow::Continue(())
        })
        .expect("events");
    times
}

#[test]
fn events_are_where_the_clocks_of_this_machine_say() {
    let scratch = Scratch::new();
    let source = clock::select();
    let before = ClockPair::read();
    let arguments = ["--procs", "2", "--threads", "1", "--exact", "--rounds", "2", "--count", "1000"];
    let arguments = [&arguments[..], &["--ops", "allreduce,broadcast"]].concat();
    let Some(mut job) = scratch.run_nccl(RELEASE, &[], &arguments) else {
        return;
    };
    let _ended = run(&mut job).with_code(0);
    let pairs = [before, ClockPair::read()];
    let ours = open(&scratch.out());
    let processes = processes(&ours);
    let definitions = ours.definitions().expect("definitions");
    let any = definitions.locations.keys().next().expect("a location");
    let local = ours.local_definitions(*any).expect("local definitions");
    // One host: a constant makes CLOCK_REALTIME of CLOCK_MONOTONIC.
    let offset = i128::from(local.clock_offsets[0].offset);
    let recorded = times(&ours);
    for timer in TIMERS {
        let (name, shows) = timer;
        if name == "tsc" && source == TickSource::Monotonic {
            continue;
        }
        let scorep = scratch.path().join(name);
        let merged = scratch.path().join(format!("{name}-merged"));
        write_scorep(&scorep, timer, &processes, &pairs);
        let mut merge = scratch.tool(&["merge"]);
        merge.arg(&scorep).arg(scratch.out()).arg("-o").arg(&merged);
        let said = run(&mut merge).with_code(0);
        assert!(said.stdout.contains("host and process id"), "{said}");
        Judged::open(&merged).sound();
        let merged = times(&open(&merged));
        let [first, last] = pairs.each_ref().map(|pair| i128::from(shows(pair)));
        let [from, to] = pairs.each_ref().map(|pair| i128::from(pair.monotonic_ns));
        // The clocks are read one after the other, here and there.
        let most = ((last - first) * 2_000 / (to - from)).max(3);
        let mut events = 0;
        for (location, recorded) in &recorded {
            let there = &merged[location];
            assert_eq!(there.len(), recorded.len(), "{name}: {location}");
            for (recorded, there) in recorded.iter().zip(there) {
                let monotonic = i128::from(*recorded) - offset;
                let truth = first + (monotonic - from) * (last - first) / (to - from);
                let off = (i128::from(*there) - truth).abs();
                assert!(off <= most, "{name}: {location} is off by {off} ticks, {most} allowed");
                events += 1;
            }
        }
        assert!(events > 200, "{events}");
    }
}
