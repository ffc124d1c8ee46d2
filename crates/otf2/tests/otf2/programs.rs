//! Events of programs, samples, files and windows, as other recorders write them.

use crate::sample::{self, GPU_STREAM};
use otf2::{
    Archive, AttributeRef, AttributeValue, Attributes, CallingContextRef, CommRef, EventKind, EventWriter, IoHandleRef,
    Paradigm, RmaWinRef, StringRef,
};

fn events(to: &mut EventWriter<'_>) -> otf2::Result<()> {
    let none = Attributes::NONE;
    let mut process = Attributes::new();
    process.add(AttributeRef::new(3), AttributeValue::U64(4711))?;
    let (file, window) = (IoHandleRef::new(0), RmaWinRef::new(0));
    let context = CallingContextRef::new(0);
    to.program_begin(1001, StringRef::new(0), &process)?;
    to.calling_context_enter(1002, context, 1, none)?;
    to.io_create_handle(1003, file, (1, 0, 0), none)?;
    to.io_operation_begin(1004, file, 1, (512, 7), none)?;
    to.io_operation_complete(1005, file, (512, 7), none)?;
    to.io_destroy_handle(1006, file, none)?;
    to.calling_context_leave(1007, context, none)?;
    to.rma_win_create(1008, window, none)?;
    to.rma_win_destroy(1009, window, none)?;
    let team = CommRef::new(0);
    to.thread_fork(1010, Paradigm::OpenMp, 4, none)?;
    to.thread_team_begin(1011, team, none)?;
    to.thread_team_end(1012, team, none)?;
    to.thread_join(1013, Paradigm::OpenMp, none)?;
    to.buffer_flush(1014, 1020, none)?;
    to.program_end(1021, -1, none)?;
    assert!(to.program_begin(1021, StringRef::UNDEFINED, none).is_err());
    assert!(to.io_destroy_handle(1021, IoHandleRef::UNDEFINED, none).is_err());
    assert!(to.thread_team_begin(1021, CommRef::UNDEFINED, none).is_err());
    Ok(())
}

#[test]
fn what_is_written_is_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let anchor = sample::write_archive_by(directory.path(), events).expect("it is written");
    let archive = Archive::open(&anchor).expect("the archive opens");
    let read = sample::read_events(&archive, &[GPU_STREAM]).expect("it is read");
    let kinds = [
        "ProgramBegin",
        "CallingContextEnter",
        "IoCreateHandle",
        "IoOperationBegin",
        "IoOperationComplete",
        "IoDestroyHandle",
        "CallingContextLeave",
        "RmaWinCreate",
        "RmaWinDestroy",
        "ThreadFork",
        "ThreadTeamBegin",
        "ThreadTeamEnd",
        "ThreadJoin",
        "BufferFlush",
        "ProgramEnd",
    ];
    let times = (1001..=1014).chain([1021]);
    let wanted: Vec<_> = times.zip(kinds.map(EventKind::Other)).collect();
    assert_eq!(read.iter().map(|(_, event)| (event.time, event.kind.clone())).collect::<Vec<_>>(), wanted);
    assert_eq!(read[0].1.attributes, [(AttributeRef::new(3), AttributeValue::U64(4711))]);
    let Some(text) = sample::otf2_print(&anchor) else { return };
    // Details that this crate's reader ignores.
    for word in
        ["Exit status: -1", "Bytes Result: 512", "Bytes Request: 512", "Unwind Distance: 1", "WRITE", "Stop Time: 1020"]
    {
        assert!(text.contains(word), "{word}:\n{text}");
    }
}
