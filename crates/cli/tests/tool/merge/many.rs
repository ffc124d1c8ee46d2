//! `merge` of many processes: all are found.

use std::path::{Path, PathBuf};

use otf2::verbatim::Definition;
use otf2::{
    ArchiveWriter, AttributeRef, AttributeValue, Attributes, CommRef, GroupRef, LocationGroupRef, LocationRef,
    MappingType, RegionRef, StringRef, SystemTreeNodeRef,
};
use serde_json::Value;

use crate::tool::made_up::{HOSTS, Moment, SECOND, number};
use crate::tool::support::{Scratch, text};

const PROCESSES_OF_A_HOST: u32 = 8;
const REGION: RegionRef = RegionRef::new(0);
const PROCESS_ID: AttributeRef = AttributeRef::new(0);
/// When Score-P's events of a process begin and end, and NCCL's between them.
const SPAN: [Moment; 4] = [SECOND, 2 * SECOND, 3 * SECOND, 6 * SECOND];

/// What this project's writer gives each process a table for, of what it uses.
const TABLES: [MappingType; 5] =
    [MappingType::String, MappingType::Attribute, MappingType::Region, MappingType::Comm, MappingType::Metric];

/// A definition of a text for each name, in order: a job of many has too many to look for.
#[derive(Default)]
struct Texts(Vec<Definition>);

impl Texts {
    fn add(&mut self, text: impl Into<String>) -> StringRef {
        let this = StringRef::new(u32::try_from(self.0.len()).expect("few"));
        let text = text.into().into_bytes();
        self.0.push(Definition::String { this, text });
        this
    }
}

fn host(rank: u32) -> String {
    format!("node{:05}", rank / PROCESSES_OF_A_HOST)
}

/// The same on all hosts of a container: the host tells.
fn process_id(rank: u32) -> u64 {
    u64::from(1000 + rank % PROCESSES_OF_A_HOST)
}

/// A tree of the hosts of these ranks, and the node of each rank.
fn tree(ranks: &[u32], texts: &mut Texts, all: &mut Vec<Definition>) -> Vec<SystemTreeNodeRef> {
    let root = SystemTreeNodeRef::new(0);
    let (machine, node) = (texts.add("machine"), texts.add("node"));
    all.push(Definition::SystemTreeNode {
        this: root,
        name: texts.add("cluster"),
        class_name: machine,
        parent: SystemTreeNodeRef::UNDEFINED,
    });
    let mut nodes: Vec<(String, SystemTreeNodeRef)> = Vec::new();
    let of = ranks.iter().map(|rank| {
        let host = host(*rank);
        if nodes.last().is_none_or(|(last, _)| *last != host) {
            let this = SystemTreeNodeRef::new(u32::try_from(nodes.len() + 1).expect("few"));
            all.push(Definition::SystemTreeNode {
                this,
                name: texts.add(host.clone()),
                class_name: node,
                parent: root,
            });
            nodes.push((host, this));
        }
        nodes[nodes.len() - 1].1
    });
    of.collect()
}

fn clock() -> Definition {
    let [begin, .., end] = SPAN.map(|at| number(HOSTS[0].raw(at)));
    Definition::ClockProperties {
        timer_resolution: 1_000_000_000,
        global_offset: begin,
        trace_length: end - begin + 1,
        realtime_timestamp: u64::MAX,
    }
}

fn region(name: StringRef) -> Definition {
    Definition::Region {
        this: REGION,
        name,
        canonical_name: name,
        description: name,
        role: 1,
        paradigm: 1,
        flags: 0,
        source_file: StringRef::UNDEFINED,
        begin_line: 0,
        end_line: 0,
    }
}

fn location(id: u64, name: StringRef, location_type: u8, group: LocationGroupRef) -> Definition {
    Definition::Location {
        this: LocationRef::new(id),
        name,
        location_type,
        number_of_events: if location_type == 1 { 4 } else { 2 },
        group,
    }
}

/// The list of locations, and a communicator of all.
fn communicator(paradigm: u8, ranks: u32, name: StringRef, all: &mut Vec<Definition>) {
    for (number, group_type) in [(0, 4), (1, 5)] {
        all.push(Definition::Group {
            this: GroupRef::new(number),
            name,
            group_type,
            paradigm,
            flags: 0,
            members: (0..u64::from(ranks)).collect(),
        });
    }
    all.push(Definition::Comm {
        this: CommRef::new(0),
        name,
        group: GroupRef::new(1),
        parent: CommRef::UNDEFINED,
        flags: 0,
    });
}

/// What Score-P writes of these ranks: with MPI of all in one, else of each in one of its own.
fn scorep(directory: &Path, ranks: &[u32], has_mpi: bool) -> PathBuf {
    std::fs::create_dir_all(directory).expect("a directory");
    let settings = "SCOREP_ENABLE_TRACING=true\nSCOREP_TIMER='clock_gettime'\n";
    std::fs::write(directory.join("scorep.cfg"), settings).expect("settings");
    let mut archive = ArchiveWriter::create_with_chunks(directory, "traces", 256 << 10).expect("an archive");
    archive.set_creator("Score-P 8.4").expect("a creator");
    let none = Attributes::NONE;
    let [begin, .., end] = SPAN.map(|at| number(HOSTS[0].raw(at)));
    let mut texts = Texts::default();
    let program = texts.add("train");
    let mut all = vec![region(program)];
    let nodes = tree(ranks, &mut texts, &mut all);
    let master = texts.add("Master thread");
    for ((place, rank), node) in (0..).zip(ranks).zip(nodes) {
        let of = LocationRef::new(if has_mpi { u64::from(*rank) } else { 0 });
        let mut writer = archive.event_writer(of).expect("a writer");
        let mut process = Attributes::new();
        let id = AttributeValue::U64(process_id(*rank));
        process.add(PROCESS_ID, id).expect("an attribute");
        let written = writer
            .program_begin(begin, program, &process)
            .and_then(|()| writer.enter(begin, REGION, none))
            .and_then(|()| writer.leave(end, REGION, none))
            .and_then(|()| writer.program_end(end, 0, none));
        written.expect("events");
        writer.close().expect("events");
        let local = archive.local_definitions(of).expect("a writer");
        local.close().expect("local definitions");
        let group = LocationGroupRef::new(place);
        all.push(Definition::LocationGroup {
            this: group,
            name: texts.add(if has_mpi { format!("MPI Rank {rank}") } else { "Process".to_owned() }),
            group_type: 1,
            parent: node,
            creator: LocationGroupRef::UNDEFINED,
        });
        all.push(location(of.get(), master, 1, group));
    }
    all.push(Definition::Attribute {
        this: PROCESS_ID,
        name: texts.add("ProcessId"),
        description: master,
        attribute_type: 4,
    });
    if has_mpi {
        let name = texts.add("MPI");
        all.push(Definition::Paradigm { paradigm: 4, name, class: 0 });
        let ranks = u32::try_from(ranks.len()).expect("few");
        communicator(4, ranks, name, &mut all);
    }
    define(archive, texts, all);
    directory.to_owned()
}

/// What all clocks showed at a moment.
fn anchor(at: Moment) -> String {
    let clocks = HOSTS[0];
    format!("{} {} {} {}", clocks.ticks(at), clocks.monotonic(at), clocks.raw(at), clocks.realtime(at))
}

/// What this project writes of them all.
fn nccl(directory: &Path, ranks: u32) -> PathBuf {
    std::fs::create_dir_all(directory).expect("a directory");
    let mut archive = ArchiveWriter::create(directory, "traces").expect("an archive");
    archive.set_creator("a test").expect("a creator");
    let version = archive.set_property("NCCL::VERSION", "2.28.9");
    version.expect("a property");
    let anchors = SPAN.map(anchor).join(", ");
    let [_, begin, end, _] = SPAN.map(|at| number(HOSTS[0].monotonic(at)));
    let none = Attributes::NONE;
    let mut texts = Texts::default();
    let mut all = vec![region(texts.add("ncclAllReduce"))];
    let of_all: Vec<u32> = (0..ranks).collect();
    let nodes = tree(&of_all, &mut texts, &mut all);
    let names = ["PROCESS_ID", "RANK", "CLOCK::SOURCE", "CLOCK::ANCHORS"];
    let names = names.map(|name| texts.add(format!("NCCL::{name}")));
    let [source, anchors] = ["TSC", &*anchors].map(|text| AttributeValue::String(texts.add(text)));
    for (rank, node) in (0..ranks).zip(&nodes) {
        let this = LocationGroupRef::new(rank);
        all.push(Definition::LocationGroup {
            this,
            name: texts.add(format!("rank {rank} [{}:{}]", host(rank), process_id(rank))),
            group_type: 1,
            parent: *node,
            creator: LocationGroupRef::UNDEFINED,
        });
        let id = AttributeValue::U64(process_id(rank));
        let values = [id, AttributeValue::U64(rank.into()), source, anchors];
        for (name, value) in names.into_iter().zip(values) {
            all.push(Definition::LocationGroupProperty { of: this, name, value });
        }
    }
    for (rank, node) in (0..ranks).zip(nodes) {
        let of = LocationRef::new(rank.into());
        let mut writer = archive.event_writer(of).expect("a writer");
        let written = writer.enter(begin, REGION, none).and_then(|()| writer.leave(end, REGION, none));
        written.expect("events");
        writer.close().expect("events");
        let mut local = archive.local_definitions(of).expect("a writer");
        for mapping in TABLES {
            local.mapping_table_dense(mapping, &[0]).expect("a table");
        }
        for time in [begin, end] {
            local.clock_offset(time, 0, 0.0).expect("an offset");
        }
        local.close().expect("local definitions");
        let gpu = LocationGroupRef::new(ranks + rank);
        let name = texts.add(format!("GPU of rank {rank}"));
        all.push(Definition::LocationGroup {
            this: gpu,
            name,
            group_type: 2,
            parent: node,
            creator: LocationGroupRef::new(rank),
        });
        all.push(location(of.get(), name, 2, gpu));
    }
    let name = texts.add("NCCL");
    all.push(Definition::Paradigm { paradigm: 4, name, class: 0 });
    communicator(4, ranks, name, &mut all);
    define(archive, texts, all);
    directory.to_owned()
}

fn define(mut archive: ArchiveWriter, texts: Texts, all: Vec<Definition>) {
    let mut to = archive.definitions().expect("definitions");
    for definition in [clock()].iter().chain(&texts.0).chain(&all) {
        to.verbatim(definition).expect("a definition");
    }
    archive.close().expect("an archive");
}

/// Merges a process for each of `ranks`: all are found by host and process id.
fn merge(ranks: u32, has_mpi: bool) {
    let scratch = Scratch::new();
    let of_all: Vec<u32> = (0..ranks).collect();
    let scoreps: Vec<PathBuf> = if has_mpi {
        vec![scorep(&scratch.join("scorep"), &of_all, true)]
    } else {
        let one = |rank: &u32| scorep(&scratch.join(&format!("s{rank}")), &[*rank], false);
        of_all.iter().map(one).collect()
    };
    let nccl = nccl(&scratch.join("nccl"), ranks);
    let mut tool = scratch.tool();
    tool.args(["merge", "--json", "-o", "out"]).args(&scoreps);
    let output = tool.arg(nccl).output().expect("the tool runs");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(said["locations"], 2 * ranks);
    let pairs = said["pairs"].as_array().expect("pairs");
    assert_eq!(pairs.len(), of_all.len());
    for (rank, pair) in of_all.iter().zip(pairs) {
        assert_eq!(pair["by"], "process", "{pair}");
        assert_eq!(pair["rank"], *rank, "{pair}");
        assert_eq!(pair["scorep"]["rank"], *rank, "{pair}");
        assert_eq!(pair["begins_after_ns"], 1_000_000_000, "{pair}");
    }
}

#[test]
fn processes_of_many_hosts_are_found() {
    for has_mpi in [true, false] {
        merge(40, has_mpi);
    }
}
