//! What the corpora begin with, by the real writers.

use std::fs;
use std::path::Path;

use ::archive::{FinalizeOptions, finalize};
use exports::protobuf::Message as _;
use exports::protobuf::{
    PROFILE_START_TIME, PROFILE_STOP_TIME, TASK_ENVIRONMENT, XPlane, XSpace, XStat, XStatMetadata,
};
use journal::format::{header, segment_flag};
use journal::testing::{Process, ProcessIdentity};

use crate::segments::{SEGMENT, Segment};
use crate::{archive, dumps, foreign, job, pieces};

#[expect(clippy::missing_panics_doc, reason = "what cannot be made ends the program that makes them")]
pub fn all() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let scratch = tempfile::tempdir().expect("a directory");
    let out = scratch.path();
    let parts = [0, 1].map(|rank| record(out, rank));
    let [journal, other] = parts.each_ref().map(|part| segments(part, &[]));
    // The last segments of a flight recording; the first three are gone.
    let flight = [
        (header::FLAGS, segment_flag::FLIGHT),
        (header::ORDER, 3),
        (header::STARTED_BEFORE, 100),
        (header::LOST_BEFORE, 2),
    ];
    let flight = segments(&parts[0], &flight);
    let [mut whole, mut two] = [Vec::new(), Vec::new()];
    for (part, journal) in parts.iter().zip([&journal, &other]) {
        file(&mut whole, b'P', &part.join("process.json"));
        whole.extend_from_slice(journal);
        pieces::push(&mut whole, job::NEXT, &[&[0]]);
    }
    let schedule = [&[4, 0x32, 0x53, 0xf1, 0xff][..], &journal].concat();
    let grows = [&[3, 0x31, 0x72, 0xf3][..], &journal].concat();
    let options = FinalizeOptions { keep_journal: true, ..FinalizeOptions::default() };
    let made = finalize(out, &options, &()).expect("an archive");
    for part in &parts {
        for (kind, name) in job::NAMES {
            file(&mut two, kind, &part.join(name));
        }
        numbered(&mut two, job::EVENTS, &part.join("traces"), "evt");
        pieces::push(&mut two, job::NEXT, &[&[0]]);
    }
    let mut read = Vec::new();
    let anchor = made.archive.expect("made now").anchor;
    file(&mut read, archive::ANCHOR, &anchor);
    file(&mut read, archive::GLOBAL, &anchor.with_extension("def"));
    numbered(&mut read, archive::EVENTS, &out.join("traces"), "evt");
    numbered(&mut read, archive::LOCAL, &out.join("traces"), "def");
    let largest = fs::read_dir(out.join("traces")).expect("event files").flatten().map(|entry| entry.path());
    let largest = largest.filter(|file| file.extension().is_some_and(|ending| ending == "evt"));
    let largest =
        largest.max_by_key(|file| fs::metadata(file).map_or(0, |metadata| metadata.len())).expect("an event file");
    vec![
        ("journal", "recorded", journal),
        ("journal", "flight", flight.clone()),
        ("follow", "flight", [&[3, 0x31, 0xff, 0xf3][..], &flight].concat()),
        ("finalize", "flight", flight),
        ("follow", "grows", grows),
        ("follow", "removed", schedule),
        ("finalize", "two-parts", whole),
        ("manifest", "two-parts", two),
        ("archive", "two-ranks", read),
        ("records", "events", fs::read(largest).expect("an event file")),
        ("kineto", "torch", torch()),
        ("xplane", "host", profile()),
        ("topology", "two-sockets", two_sockets()),
    ]
}

fn record(out: &Path, rank: u32) -> std::path::PathBuf {
    let mut process = Process::begin(out, ProcessIdentity { rank, ranks: 2, in_environment: true });
    for sequence in 0..2 {
        let _ids = process.all_reduce(sequence);
    }
    process.exchange();
    process.end()
}

/// The journal of a part, with changed words in all headers.
fn segments(part: &Path, changes: &[(usize, u64)]) -> Vec<u8> {
    let mut input = Vec::new();
    let mut paths: Vec<_> =
        fs::read_dir(part.join("journal")).expect("a journal").flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let (slot, file) = name.split_once('.').expect("a slot and a number");
        let (slot, file) = (slot.parse().expect("a number"), file.parse().expect("a number"));
        let bytes = fs::read(&path).expect("a segment");
        let segment = Segment::shortened(&bytes, changes, (slot, file));
        pieces::push(&mut input, SEGMENT, &[&segment]);
    }
    input
}

fn file(input: &mut Vec<u8>, kind: u8, path: &Path) {
    if let Ok(bytes) = fs::read(path) {
        pieces::push(input, kind, &[&bytes]);
    }
}

fn numbered(input: &mut Vec<u8>, kind: u8, folder: &Path, extension: &str) {
    for number in 0..=u8::MAX {
        if let Ok(bytes) = fs::read(folder.join(format!("{number}.{extension}"))) {
            pieces::push(input, kind, &[&[number], &bytes]);
        }
    }
}

/// A trace of torch.profiler of rank 0, in the archive's time.
fn torch() -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/torch-profiler.json");
    let text = fs::read_to_string(path).expect("a trace");
    text.replace("\"baseTimeNanoseconds\": 0", &format!("\"baseTimeNanoseconds\": {}", foreign::BEGAN_NS))
        .replace("\"pid\": 1,", "\"pid\": 0,")
        .replace("\"ts\": 0, \"dur\": 0", "\"ts\": 1200.5, \"dur\": 700")
        .into_bytes()
}

fn two_sockets() -> Vec<u8> {
    let mut input = Vec::new();
    for (kind, name) in [(dumps::SYSTEM, "nccl-system.xml"), (dumps::GRAPHS, "nccl-graphs.xml")] {
        file(&mut input, kind, &Path::new(env!("CARGO_MANIFEST_DIR")).join("../data").join(name));
    }
    input
}

fn profile() -> Vec<u8> {
    let times = [(1, PROFILE_START_TIME, 0), (2, PROFILE_STOP_TIME, 1_000_000_000)];
    let metadata = times.map(|(id, name, _)| (id, XStatMetadata { id, name: name.to_owned() }));
    let stats = times.map(|(metadata_id, _, after_ns)| XStat {
        metadata_id,
        uint64_value: Some(foreign::BEGAN_NS + after_ns),
        ..XStat::default()
    });
    let plane = XPlane {
        name: TASK_ENVIRONMENT.to_owned(),
        stat_metadata: metadata.into(),
        stats: stats.to_vec(),
        ..XPlane::default()
    };
    XSpace { planes: vec![plane], hostnames: vec!["host0".to_owned()] }.encode_to_vec()
}
