//! Events of programs, samples, files and windows: what other recorders write.

use std::ops::ControlFlow;

use crate::sample::{self, LOCATION, every_kind};
use otf2::verbatim::Definition;
use otf2::{
    Archive, ArchiveWriter, AttributeRef, AttributeValue, Attributes, CallingContextRef, EventKind, EventWriter,
    IoHandleRef, RmaWinRef, StringRef,
};

fn events(to: &mut EventWriter<'_>) -> otf2::Result<()> {
    let none = Attributes::NONE;
    let mut process = Attributes::new();
    process.add(AttributeRef::new(0), AttributeValue::U64(4711))?;
    let (file, window) = (IoHandleRef::new(0), RmaWinRef::new(0));
    let context = CallingContextRef::new(0);
    to.program_begin(1, StringRef::new(0), &process)?;
    to.calling_context_enter(2, context, 1, none)?;
    to.io_create_handle(3, file, (1, 0, 0), none)?;
    to.io_operation_begin(4, file, 1, (512, 7), none)?;
    to.io_operation_complete(5, file, (512, 7), none)?;
    to.io_destroy_handle(6, file, none)?;
    to.calling_context_leave(7, context, none)?;
    to.rma_win_create(8, window, none)?;
    to.rma_win_destroy(9, window, none)?;
    to.program_end(10, -1, none)
}

#[test]
fn what_is_written_is_read() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut archive = ArchiveWriter::create(scratch.path(), "traces").expect("an archive");
    let mut to = archive.event_writer(LOCATION).expect("a writer");
    events(&mut to).expect("events");
    let none = Attributes::NONE;
    assert!(to.program_begin(11, StringRef::UNDEFINED, none).is_err());
    assert!(to.io_destroy_handle(11, IoHandleRef::UNDEFINED, none).is_err());
    let count = to.close().expect("events");
    archive.local_definitions(LOCATION).expect("a writer").close().expect("closed");
    let mut to = archive.definitions().expect("a writer");
    for mut definition in every_kind() {
        if let Definition::Location { number_of_events, .. } = &mut definition {
            *number_of_events = count;
        }
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
    assert_eq!(read[0].2, [(AttributeRef::new(0), AttributeValue::U64(4711))]);
    let Some(printed) = sample::otf2_print(&anchor) else {
        return sample::skip("otf2-print is not installed");
    };
    let text = String::from_utf8_lossy(&printed.stdout);
    assert!(printed.status.success() && printed.stderr.is_empty(), "{printed:?}");
    // What our reader does not look at.
    for word in ["Exit status: -1", "Bytes Result: 512", "Bytes Request: 512", "Unwind Distance: 1", "WRITE"] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
}
