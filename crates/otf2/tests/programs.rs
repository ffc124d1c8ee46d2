//! Events of programs, samples, files and windows: what other recorders write.

mod common;

use std::ops::ControlFlow;

use otf2::verbatim::Definition;
use otf2::{
    Archive, ArchiveWriter, AttributeRef, AttributeValue, Attributes, CallingContextRef, CommRef,
    EventKind, GroupRef, IoFileRef, IoHandleRef, IoParadigmRef, LocationGroupRef, LocationRef,
    RegionRef, RmaWinRef, SourceCodeLocationRef, StringRef, SystemTreeNodeRef,
};

const LOCATION: LocationRef = LocationRef::new(0);

fn definitions(events: u64) -> Vec<Definition> {
    let name = StringRef::new(0);
    vec![
        Definition::ClockProperties {
            timer_resolution: 1_000_000_000,
            global_offset: 0,
            trace_length: 100,
            realtime_timestamp: u64::MAX,
        },
        Definition::String {
            this: name,
            text: b"name".to_vec(),
        },
        Definition::IoParadigm {
            this: IoParadigmRef::new(0),
            identification: name,
            name,
            class: 0,
            flags: 0,
            properties: Vec::new(),
        },
        Definition::SystemTreeNode {
            this: SystemTreeNodeRef::new(0),
            name,
            class_name: name,
            parent: SystemTreeNodeRef::UNDEFINED,
        },
        Definition::LocationGroup {
            this: LocationGroupRef::new(0),
            name,
            group_type: 1,
            parent: SystemTreeNodeRef::new(0),
            creator: LocationGroupRef::UNDEFINED,
        },
        Definition::Location {
            this: LOCATION,
            name,
            location_type: 1,
            number_of_events: events,
            group: LocationGroupRef::new(0),
        },
        Definition::Region {
            this: RegionRef::new(0),
            name,
            canonical_name: name,
            description: StringRef::UNDEFINED,
            role: 1,
            paradigm: 1,
            flags: 0,
            source_file: StringRef::UNDEFINED,
            begin_line: 0,
            end_line: 0,
        },
        Definition::Group {
            this: GroupRef::new(0),
            name,
            group_type: 4,
            paradigm: 4,
            flags: 0,
            members: vec![0],
        },
        Definition::Group {
            this: GroupRef::new(1),
            name,
            group_type: 5,
            paradigm: 4,
            flags: 0,
            members: vec![0],
        },
        Definition::Comm {
            this: CommRef::new(0),
            name,
            group: GroupRef::new(1),
            parent: CommRef::UNDEFINED,
            flags: 0,
        },
        Definition::RmaWin {
            this: RmaWinRef::new(0),
            name,
            comm: CommRef::new(0),
            flags: 1,
        },
        Definition::Attribute {
            this: AttributeRef::new(0),
            name,
            description: name,
            attribute_type: 4,
        },
        Definition::SourceCodeLocation {
            this: SourceCodeLocationRef::new(0),
            file: name,
            line: 1,
        },
        Definition::CallingContext {
            this: CallingContextRef::new(0),
            region: RegionRef::new(0),
            source_code_location: SourceCodeLocationRef::new(0),
            parent: CallingContextRef::UNDEFINED,
        },
        Definition::IoRegularFile {
            this: IoFileRef::new(0),
            name,
            scope: SystemTreeNodeRef::new(0),
        },
        Definition::IoHandle {
            this: IoHandleRef::new(0),
            name,
            file: IoFileRef::new(0),
            paradigm: IoParadigmRef::new(0),
            flags: 0,
            comm: CommRef::UNDEFINED,
            parent: IoHandleRef::UNDEFINED,
        },
    ]
}

#[test]
fn what_is_written_is_read() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut archive = ArchiveWriter::create(scratch.path(), "traces").expect("an archive");
    let mut to = archive.event_writer(LOCATION).expect("a writer");
    let none = Attributes::NONE;
    let mut process = Attributes::new();
    process
        .add(AttributeRef::new(0), AttributeValue::U64(4711))
        .expect("an attribute");
    let (file, window) = (IoHandleRef::new(0), RmaWinRef::new(0));
    let context = CallingContextRef::new(0);
    to.program_begin(1, StringRef::new(0), &process)
        .expect("an event");
    to.calling_context_enter(2, context, 1, none)
        .expect("an event");
    to.io_create_handle(3, file, (1, 0, 0), none)
        .expect("an event");
    to.io_operation_begin(4, file, 1, (512, 7), none)
        .expect("an event");
    to.io_operation_complete(5, file, (512, 7), none)
        .expect("an event");
    to.io_destroy_handle(6, file, none).expect("an event");
    to.calling_context_leave(7, context, none)
        .expect("an event");
    to.rma_win_create(8, window, none).expect("an event");
    to.rma_win_destroy(9, window, none).expect("an event");
    to.program_end(10, -1, none).expect("an event");
    assert!(to.program_begin(11, StringRef::UNDEFINED, none).is_err());
    assert!(
        to.io_destroy_handle(11, IoHandleRef::UNDEFINED, none)
            .is_err()
    );
    let events = to.close().expect("events");
    archive
        .local_definitions(LOCATION)
        .expect("a writer")
        .close()
        .expect("closed");
    let mut to = archive.definitions().expect("a writer");
    for definition in definitions(events) {
        to.verbatim(&definition).expect("a definition");
    }
    archive.close().expect("closed");
    let anchor = scratch.path().join("traces.otf2");
    let mut read = Vec::new();
    Archive::open(&anchor)
        .expect("an archive")
        .for_each_event(&[LOCATION], |_, event| {
            let EventKind::Other(kind) = event.kind else {
                panic!("{event:?}");
            };
            read.push((event.time, kind, event.attributes));
            ControlFlow::Continue(())
        })
        .expect("events");
    let kinds: Vec<(u64, &str)> = read.iter().map(|(time, kind, _)| (*time, *kind)).collect();
    assert_eq!(
        kinds,
        [
            (1, "ProgramBegin"),
            (2, "CallingContextEnter"),
            (3, "IoCreateHandle"),
            (4, "IoOperationBegin"),
            (5, "IoOperationComplete"),
            (6, "IoDestroyHandle"),
            (7, "CallingContextLeave"),
            (8, "RmaWinCreate"),
            (9, "RmaWinDestroy"),
            (10, "ProgramEnd"),
        ]
    );
    assert_eq!(
        read[0].2,
        [(AttributeRef::new(0), AttributeValue::U64(4711))]
    );
    let Some(printed) = common::otf2_print(&anchor) else {
        return common::skip("otf2-print is not installed");
    };
    let text = String::from_utf8_lossy(&printed.stdout);
    assert!(
        printed.status.success() && printed.stderr.is_empty(),
        "{printed:?}"
    );
    // What our reader does not look at.
    for word in [
        "Exit status: -1",
        "Bytes Result: 512",
        "Bytes Request: 512",
        "Unwind Distance: 1",
        "WRITE",
    ] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
}
